"""What readers of the repository rely on: links, navigation, the lock file, the workflows, and how the tests run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
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

from tests.file_order import KEPT, expected_times
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
    "workshop/README.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
)
WIDTH = 120
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# The lock file is for this system.
# What the light client does not install. Its tests do not need it either.
HEAVY = (
    "torch",
    "grpc",
    "tritonclient",
    "prometheus_client",
    "h11",
    "google",
    "psutil",
    "hypothesis",
    "onnx",
    "trustme",
)
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


@pytest.mark.parametrize("name", ["captions", "dictation", "reading", "speakers"])
def test_a_guide_shows_what_it_is_about(name: str) -> None:
    """The page has its picture, small and not empty, with a text for those who do not see it."""
    text = (DOCS / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    [alternative] = re.findall(rf"^!\[([^\]]+)\]\(\.\./pictures/{name}\.png\)$", text, re.MULTILINE)
    assert len(alternative.split()) >= 8
    picture = DOCS / "pictures" / f"{name}.png"
    content = picture.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert 5_000 < len(content) < 100_000


def test_every_picture_has_a_text() -> None:
    """Each picture in each page says in words what it shows, and each picture of the folder is shown somewhere."""
    shown: set[str] = set()
    for path in (ROOT / "README.md", *DOCS.rglob("*.md")):
        content = FENCE.sub("", path.read_text(encoding="utf-8"))
        for alternative, address in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", content):
            assert len(alternative.split()) >= 3, f"{path}: {address}"
            shown.add(Path(address).name)
        for image in re.findall(r"<img [^>]*>", content):
            [alternative] = re.findall(r'alt="([^"]+)"', image)
            assert len(alternative.split()) >= 3, f"{path}: {image}"
            shown.add(Path(re.findall(r'src="([^"]+)"', image)[0]).name)
    assert {path.name for path in (DOCS / "pictures").glob("*.*g")} <= shown


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


def rooms() -> dict[str, tuple[str, tuple[str, ...]]]:
    """What the tests of a room need, according to `make rooms`: an extra of ours, and packages of others."""
    [table] = re.findall(
        r"^ROOMS = (\{.*?^\})", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    found: dict[str, tuple[str, tuple[str, ...]]] = ast.literal_eval(table)
    return found


def pytest_in(folder: Path, *arguments: str, plugin: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a folder with one of our plugins."""
    command = [sys.executable, "-m", "pytest", "-p", plugin, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_what_rooms_need_is_told() -> None:
    """The page about tests has the table that `make rooms` follows."""
    page = (DOCS / "explanation" / "tests.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \| `\.(?:\[([\w,]+)\])?` \| (.*) \|$", page, re.MULTILINE)
    assert {room: (extra, tuple(re.findall(r"`(.*?)`", packages))) for room, extra, packages in rows} == rooms()


def light_rooms() -> list[str]:
    """The rooms whose tests need nothing but the light client and pytest."""
    return [f"tests/{room}" for room, needs in rooms().items() if needs == ("", ())]


@pytest.mark.parametrize("arguments", [["tests/base"], ["--collect-only", *light_rooms()]], ids=["run", "collect"])
def test_a_light_room_needs_nothing_but_pytest(arguments: list[str]) -> None:
    """Where only the light client and pytest are installed, the tests that need no more are found, and pass."""
    code = f"import pytest, sys; sys.modules.update(dict.fromkeys({HEAVY})); sys.exit(pytest.main({arguments}))"
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_longest_files_are_first(tmp_path: Path) -> None:
    """Files of tests run in the order of the times that were measured, and are measured again."""
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    kept = tmp_path / ".pytest_cache" / "v" / KEPT
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"test_a.py": 11.0, "test_b.py": 22.0, "gone.py": 33.0}))
    listed = pytest_in(tmp_path, "-v", plugin="tests.file_order").stdout
    assert re.findall(r"test_(.).py::test_(\w+) PASSED", listed) == [
        (file, test) for file in ("b", "c", "a") for test in ("one", "two")
    ]
    assert json.loads(kept.read_text()) == {"test_a.py": 0.0, "test_b.py": 0.0, "test_c.py": 0.0, "gone.py": 33.0}
    kept.write_text(json.dumps({"test_a.py": 11.0}))
    pytest_in(tmp_path, "-k", "one", plugin="tests.file_order")
    assert json.loads(kept.read_text()) == {"test_a.py": 11.0}


def test_a_new_file_counts_as_those_beside_it() -> None:
    """A file that was not measured takes as long for each of its tests as the files beside it."""
    measured = {"tests/web/test_a.py": 30.0, "tests/web/test_b.py": 10.0, "tests/text/test_c.py": 1.0}
    tests = {"tests/web/test_a.py": 2, "tests/web/test_b.py": 2, "tests/text/test_c.py": 6}
    new = {"tests/web/test_new.py": 3, "tests/web/page/test_new.py": 1, "tests/text/test_new.py": 12}
    found = expected_times({**tests, **new}, measured)
    assert {file: found[file] for file in new} == pytest.approx(dict(zip(new, (30.0, 10.0, 2.0), strict=True)))
    assert expected_times({"tests/test_new.py": 5}, {}) == {"tests/test_new.py": 0.0}


def test_all_processes_expect_the_same_times() -> None:
    """To the last bit, whatever order their sets have: otherwise the processes of a run may order the files unlike."""
    program = (
        "from tests.file_order import expected_times\n"
        "measured = {f'tests/web/test_{number}.py': number * 0.1 + 0.7 for number in range(40)}\n"
        "tests = dict.fromkeys(measured, 3) | {'tests/web/test_new.py': 7}\n"
        "print(repr(expected_times(tests, measured)['tests/web/test_new.py']))\n"
    )
    found = set()
    for seed in ("1", "2", "3", "4", "5"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        found.add(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1


def test_a_flaky_test_is_named(tmp_path: Path) -> None:
    """The second try names, in its last lines, what failed first and passes alone, and nothing else."""
    (tmp_path / "test_a.py").write_text(
        "from pathlib import Path\n\n"
        "def test_passes(): pass\n\n"
        "def test_fails(): raise AssertionError\n\n"
        "def test_once():\n"
        "    mark = Path('failed')\n"
        "    before = mark.exists()\n"
        "    mark.touch()\n"
        "    assert before\n"
    )
    first = pytest_in(tmp_path, plugin="tests.flaky_tests")
    again = pytest_in(tmp_path, "--last-failed", "--tell-flaky", plugin="tests.flaky_tests")
    assert (first.returncode, again.returncode) == (1, 1)
    assert "flaky: " not in first.stdout
    assert [line for line in again.stdout.splitlines() if line.startswith("flaky: ")] == ["flaky: test_a.py::test_once"]
    assert again.stdout.splitlines()[-1] == "flaky: test_a.py::test_once"
