"""Writes what the declared options become: tables of the reference, and types for the clients.

With --check, it only checks whether they are up to date.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Final

from streamer.base.option_kinds import Choice, Flag, FlagOr, FlagOrWhole, Group, Kind, Option, Structure, Whole
from streamer.base.options import (
    ENDPOINT_OPTIONS,
    OPTIONS,
    RECOGNISER_OPTIONS,
    STREAM_START,
    Endpoint,
)
from streamer.wire.dialects.deepgram_options import OPTIONS as DEEPGRAM_OPTIONS

ROOT: Final = Path(__file__).parents[2]
REFERENCE: Final = ROOT / "docs" / "reference"
PYTHON: Final = ROOT / "streamer" / "client" / "options.py"
JAVASCRIPT: Final = ROOT / "streamer" / "web" / "options.js"
COMMAND: Final = "python scripts/docs/options_page.py"
_TABLE: Final = re.compile(rf"(<!-- Made by `{re.escape(COMMAND)}`: ([\w ]+) -->\n).*?(<!-- The end. -->\n)", re.DOTALL)


def main() -> int:
    """Write or check the tables and types. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit status is 1 if something is out of date"
    )
    options = parser.parse_args()
    pages = [REFERENCE / name for name in ("protocol.md", "triton.md", "compatibility.md")]
    right = {page: _with_tables(page.read_text(encoding="utf-8")) for page in pages}
    right |= {PYTHON: python_types(), JAVASCRIPT: javascript_types()}
    wrong = [path for path, text in right.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if options.check:
        for path in wrong:
            print(f"{path.name} is out of date: run {COMMAND} to write it again.")
        return int(bool(wrong))
    for path in wrong:
        path.write_text(right[path], encoding="utf-8")
    return 0


def _with_tables(page: str) -> str:
    return _TABLE.sub(lambda found: f"{found[1]}{tables()[found[2]]}\n{found[3]}", page)


def tables() -> dict[str, str]:
    """Return each table by its name."""
    groups = {
        group.value: _table(
            ("option", "default", "values"),
            ((f"`{each.name}`", _default(each), each.detail) for each in OPTIONS.values() if each.group is group),
        )
        for group in Group
    }
    stream = {**RECOGNISER_OPTIONS, **STREAM_START}.values()
    return {
        **groups,
        "public models": _table(
            ("option", "with a public model"),
            ((f"`{each.name}`", each.public) for each in OPTIONS.values() if each.public),
        ),
        "endpoint": _table(
            ("key", "default", "values"),
            ((f"`{each.name}`", _default(each), each.detail) for each in ENDPOINT_OPTIONS.values()),
        ),
        # The links to a heading lead to the page of the protocol.
        "stream": _table(
            ("option", "default", "meaning"),
            ((f"`{each.name}`", _default(each), each.detail.replace("](#", "](protocol.md#")) for each in stream),
        ),
        "Deepgram": _table(
            ("option", "here", "meaning"),
            ((f"`{each.name}`", each.treatment.value, each.meaning) for each in DEEPGRAM_OPTIONS),
        ),
    }


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return (
        "\n".join("| " + " | ".join(row) + " |" for row in lines).replace("| --- |", "|---|").replace(" --- |", "---|")
    )


def _default(option: Option) -> str:
    return f"`{json.dumps({} if isinstance(option.default, Endpoint) else option.default)}`"


def python_types() -> str:
    """Return the module with the type of the options for Python."""
    return (
        f'"""The options of a session, for type checkers and editors.\n\nMade by `{COMMAND}`.\n"""\n\n'
        "from __future__ import annotations\n\n"
        "from collections.abc import Mapping, Sequence\n"
        "from typing import Any, Literal, TypedDict\n\n\n"
        "class Options(TypedDict, total=False):\n"
        '    """The options of a session. docs/reference/protocol.md explains them."""\n\n'
        + "".join(f"    {each.name}: {_python(each.kind)}\n" for each in OPTIONS.values())
    )


def _python(kind: Kind) -> str:
    if isinstance(kind, Structure):
        return kind.python
    if isinstance(kind, Choice):
        return f"Literal[{', '.join(map(json.dumps, kind.values))}]"
    if isinstance(kind, FlagOr):
        return f"bool | Literal[{', '.join(map(json.dumps, kind.words))}]"
    if isinstance(kind, FlagOrWhole):
        return "bool | int"
    assert kind.type is not None
    return kind.type.__name__


def javascript_types() -> str:
    """Return the module with the type of the options for JavaScript, and the choices of the page."""
    controls = [
        {"name": each.name, "label": each.control.label, "usual": each.default, "values": each.control.values}
        for each in OPTIONS.values()
        if each.control
    ]
    return (
        f"// Made by `{COMMAND}`.\n\n"
        "/**\n * The options of a session. docs/reference/protocol.md explains them.\n * @typedef {object} Options\n"
        + "".join(map(_property, OPTIONS.values()))
        + " */\n\n/** The choices that the page offers without code of its own: the words for each value. */\n"
        + f"export const CHOICES = {json.dumps(controls, indent=4)};\n"
    )


def _property(option: Option) -> str:
    text = f"@property {{{_javascript(option.kind)}}} [{option.name}] {option.help}"
    return "".join(f" * {line}\n" for line in wrap(text, 116, subsequent_indent="    ", break_on_hyphens=False))


def _javascript(kind: Kind) -> str:
    if isinstance(kind, Structure):
        return kind.javascript
    if isinstance(kind, Choice):
        return " | ".join(map(json.dumps, kind.values))
    if isinstance(kind, FlagOr):
        return " | ".join(("boolean", *map(json.dumps, kind.words)))
    if isinstance(kind, FlagOrWhole):
        return "boolean | number"
    return "boolean" if isinstance(kind, Flag) else "number" if isinstance(kind, Whole) else "string"


if __name__ == "__main__":
    raise SystemExit(main())
