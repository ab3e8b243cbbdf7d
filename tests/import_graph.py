"""Which module imports which, read from the sources: imports anywhere in a file, and for types alone too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.project import ROOT

PLACES = ("streamer", "asr_repo", "workshop", "scripts", "tests")
Graph = Mapping[str, frozenset[str]]


@cache
def modules() -> dict[str, Path]:
    """All modules of the repository by name, including packages."""
    paths = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    return {_name(path): path for path in paths}


@cache
def import_graph() -> Graph:
    """The modules of ours that each module imports; `from package import module` is an import of the module."""
    return {name: frozenset(_ours(path)) for name, path in modules().items()}


@cache
def foreign_imports(module: str) -> frozenset[str]:
    """The imports of a module that are not ours: the names before the first dot."""
    found = (name.partition(".")[0] for names in _imports(modules()[module]) for name in names[-1:])
    return frozenset(name for name in found if name not in PLACES)


def circles(graph: Graph) -> list[list[str]]:
    """Each group of modules that import each other, directly or through others; by Tarjan's algorithm."""
    found: list[list[str]] = []
    place: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        place[module] = lowest[module] = len(place)
        path.append(module)
        for imported in graph.get(module, ()):
            if imported not in place:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in path:
                lowest[module] = min(lowest[module], place[imported])
        if lowest[module] == place[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1 or module in graph.get(module, ()):
                found.append(sorted(group))

    for module in graph:
        if module not in place:
            visit(module)
    return sorted(found)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _ours(path: Path) -> Iterator[str]:
    for names in _imports(path):
        # The longest name that is a module. The rest is a name inside the module.
        known = [name for name in names if name in modules()]
        if known or names[-1].partition(".")[0] in PLACES:
            yield (known or names[-1:])[0]


@cache
def _imports(path: Path) -> list[list[str]]:
    """For each imported name: the module that it may be, and otherwise the module that contains it."""
    found = []
    for statement in _statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(statement, ast.Import):
            found += [[alias.name] for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path}: imports have full names"
            found += [[f"{statement.module}.{alias.name}", str(statement.module)] for alias in statement.names]
    return found


def _statements(block: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All statements, also those inside others. An expression has none, so most of the tree is not looked at."""
    for statement in block:
        yield statement
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(statement, inner, ()))
