"""What readers of the repository rely on: links, navigation, the lock file, the workflows."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.project import DOCS, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Where the name of a page may be mentioned.
FOLDERS = (
    ".github",
    "asr_repo",
    "audio_samples",
    "deploy",
    "docs",
    "examples",
    "scripts",
    "streamer",
    "tests",
    "workshop",
)
WRITTEN = {"", ".html", ".js", ".md", ".pbtxt", ".py", ".toml", ".yaml", ".yml"}
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.*?)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# Documents that are not part of the site. `make docs` is strict about the others.
BESIDE_THE_SITE = (
    "README.md",
    "asr_repo/streaming_asr/1/CARD.md",
    "audio_samples/README.md",
    "examples/keywords/README.md",
    "workshop/NOTEBOOK.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
)
WIDTH = 120
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# The lock file is for this system.
SYSTEM = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"}


def documents() -> list[Path]:
    """All pages, and the documents at the root of the repository."""
    return [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / path for path in BESIDE_THE_SITE[1:])]


def supported() -> list[str]:
    """The Python versions that `make nox` tries."""
    [listed] = re.findall(r"^SUPPORTED = \((.*)\)$", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE)
    return re.findall(r'"([\d.]+)"', listed)


def links(document: Path) -> Iterator[str]:
    """The links of a document, except those to other sites."""
    for match in LINK.finditer(FENCE.sub("", document.read_text(encoding="utf-8"))):
        target = match[1] or match[2]
        if not re.match(r"[a-z]+:|\.\./blob/", target):
            yield target


def anchors(document: Path) -> set[str]:
    """The headings of a document, in the form used by links."""
    headings = HEADING.findall(FENCE.sub("", document.read_text(encoding="utf-8")))
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    """Links lead to a file or folder of the repository, and to an existing heading."""
    for target in links(document):
        path, _, anchor = target.partition("#")
        led_to = (document.parent / path).resolve() if path else document
        assert led_to.exists(), target
        assert not anchor or anchor in anchors(led_to), target


def test_pages_that_are_named_exist() -> None:
    """Pages that comments, messages and settings name exist under that name."""
    named = re.compile(r"(?<![\w/.])docs/[\w./-]+\.(?:md|svg|png)")
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in WRITTEN]
    paths += [path for path in ROOT.iterdir() if path.suffix in WRITTEN]
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path.is_file()}
    names = [(path, name) for path, text in texts.items() for name in named.findall(text)]
    assert len(names) > 50
    missing = [f"{path.relative_to(ROOT)}: {name}" for path, name in names if not (ROOT / name).exists()]
    assert not missing, "\n".join(missing)


def test_every_page_has_one_place_in_the_navigation() -> None:
    """Every page of the site is in the navigation once, including those outside docs/."""
    navigation, _, _ = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nhooks:")
    placed = Counter(re.findall(r"(\S+\.md)$", navigation, re.MULTILINE))
    assert {path for path, times in placed.items() if times > 1} == set()
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} <= set(placed)


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lines_fit_into_a_window(document: Path) -> None:
    """Lines have at most 120 characters, except in tables and in the output of programs."""
    lines = FENCE.sub("", document.read_text(encoding="utf-8")).splitlines()
    assert [line for line in lines if len(line) > WIDTH and not line.startswith(("|", "<img", "!["))] == []


def test_the_readme_is_short() -> None:
    """The README says on one screen what Streamer does, and links the rest."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    first = "\n".join(lines[:30])
    told = ("writing.svg", "make run", "make test", "Good for", "Not good for", "disk", "memory", "macOS", "Windows")
    assert [word for word in told if word not in first] == []


def test_the_readme_has_the_figures_of_the_model_card() -> None:
    """The words wrong of this model in each corpus, and of the other one."""
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    card = (ROOT / "asr_repo/streaming_asr/1/CARD.md").read_text(encoding="utf-8")
    block = re.findall(r"<!-- measured: errors -->(.*?)<!-- end -->", card, re.DOTALL)[0]
    rows = re.findall(r"^\| (\w[\w -]*?)(?:,[^|]*)? \| ([\d.]+) .*?\| [\d.]+ \| ([\d.]+) ", block, re.MULTILINE)
    corpora = [row for row in rows if row[0] != "all"]
    assert len(corpora) == 3
    for corpus, wrong, _ in corpora:
        assert re.search(rf"{corpus}(?: \([^)]*\))? {wrong} %", readme), corpus
    others = [other for _, _, other in corpora]
    assert f"PocketSphinx has {others[0]}, {others[1]} and {others[2]} %" in readme


def pins() -> dict[str, list[tuple[str, Marker | None]]]:
    """The versions of requirements.lock by package, with the Pythons and systems for each."""
    found: dict[str, list[tuple[str, Marker | None]]] = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            requirement = Requirement(line)
            [specifier] = requirement.specifier
            found.setdefault(canonicalize_name(requirement.name), []).append((specifier.version, requirement.marker))
    return found


@pytest.mark.parametrize("python", supported())
def test_the_lock_file_has_what_is_asked_for(python: str) -> None:
    """Each dependency has one fitting version for each Python; `make lock` writes the file."""
    project = PYPROJECT["project"]
    asked = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    environment = {**SYSTEM, "python_version": python, "python_full_version": f"{python}.1"}
    locked = pins()
    for requirement in map(Requirement, asked):
        if requirement.name == project["name"] or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        fitting = locked.get(canonicalize_name(requirement.name), [])
        versions = [version for version, marker in fitting if marker is None or marker.evaluate(environment)]
        assert len(versions) == 1, f"{requirement}: make lock"
        assert requirement.specifier.contains(versions[0]), f"{requirement}, not {versions[0]}: make lock"


def workflow(name: str) -> dict[str, Any]:
    """A workflow, parsed."""
    parsed: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    return parsed


def test_every_supported_python_is_tried() -> None:
    """The workflow, `make nox`, the metadata and the search for a Python agree."""
    assert workflow("ci.yml")["jobs"]["service"]["strategy"]["matrix"]["python"] == supported()
    start = "Programming Language :: Python :: 3."
    classified = [line.rpartition(" ")[2] for line in PYPROJECT["project"]["classifiers"] if line.startswith(start)]
    assert classified == supported()
    search = (ROOT / "scripts" / "find_python").read_text(encoding="utf-8")
    assert all(f"python{version}" in search for version in supported())


@pytest.mark.parametrize("name", [path.name for path in (ROOT / ".github" / "workflows").iterdir()])
def test_workflows_type_what_everybody_types(name: str) -> None:
    """Each `make` in a workflow is a target of the Makefile."""
    steps = [step for job in workflow(name)["jobs"].values() for step in job["steps"]]
    assert steps
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in (step["run"].split() for step in steps if "run" in step):
        assert words[0] != "make" or re.search(rf"^{words[1]}:", makefile, re.MULTILINE)
