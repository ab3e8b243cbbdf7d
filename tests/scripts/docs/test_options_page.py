"""What the declared options become: tables, types, arguments and OpenAPI, without another edit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT
from tests.scripts.program import run

COPIED = ("streamer", "scripts/docs", "docs/reference")
DECLARATION = """\
    sarcasm: str = option(
        "some",
        Choice("none", "some", "much"),
        "how much of it is heard",
        argument=Argument(("--sarcasm",)),
        control=Control("Sarcasm", {"none": "is not heard", "some": "is heard", "much": "is heard everywhere"}),
        foreign=(Foreign(Service.DEEPGRAM, "sarcastic", "all of it", {True: "much", False: "some"}),),
    )
"""
PROGRAM = """\
import json, sys
from streamer.engine.stream_options import BadOptions, StreamOptions
from streamer.wire.dialects.deepgram_options import DeepgramOptions
from streamer.wire.errors import WireError
from streamer.wire.native import parse
from streamer.wire.openapi import document

told = parse('{"type":"start","sarcasm":"much"}').model_options()
found = {"told": told, "heard": StreamOptions.from_dict(told, [320], ["lexicon"]).sarcasm}
for name, read in (
    ("wire", lambda: parse('{"type":"start","sarcasm":"more"}')),
    ("engine", lambda: StreamOptions.from_dict({"sarcasm": "more"}, [320], ["lexicon"])),
):
    try:
        read()
    except (BadOptions, WireError) as error:
        found[name] = str(error)
found["Deepgram"] = DeepgramOptions([("sarcastic", "true")], {}).session()["sarcasm"]
parameters = document("1", 1, 1)["paths"]["/v1/transcribe"]["post"]["parameters"]
found["OpenAPI"] = next(each for each in parameters if each["name"] == "sarcasm")
print(json.dumps(found))
"""


def test_they_are_up_to_date() -> None:
    """The tables and types in the repository are those of the present declarations."""
    done = run("docs/options_page.py", "--check")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one more declaration."""
    place = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = place / "streamer" / "base" / "options.py"
    before, mark, after = path.read_text(encoding="utf-8").partition("    speech: bool = option(\n")
    assert mark
    path.write_text(f"{before}{DECLARATION}{mark}{after}", encoding="utf-8")
    return place


def here(tree: Path, *arguments: str) -> str:
    """Run Python with the copy, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_one_declaration_is_enough_for_programs(tree: Path) -> None:
    """The wire, the engine, OpenAPI and Deepgram's clients have an option that was only declared."""
    assert json.loads(here(tree, "-c", PROGRAM)) == {
        "told": {"sarcasm": "much"},
        "heard": "much",
        "wire": "'sarcasm' must be none, some or much, not \"more\".",
        "engine": "sarcasm must be none, some or much, not more",
        "Deepgram": "much",
        "OpenAPI": {
            "name": "sarcasm",
            "in": "query",
            "required": False,
            "schema": {"enum": ["none", "some", "much"]},
            "description": "How much of it is heard.",
        },
    }


def test_one_declaration_is_enough_for_people(tree: Path) -> None:
    """--help has its argument, and the script writes it into the reference, the types of the clients and the page."""
    assert "--sarcasm {none,some,much}" in here(tree, "-m", "streamer", "--help")
    here(tree, "scripts/docs/options_page.py")
    rows: dict[str, list[str]] = {
        "docs/reference/protocol.md": ['| `sarcasm` | `"some"` | how much of it is heard |'],
        "docs/reference/triton.md": ['| `sarcasm` | `"some"` | how much of it is heard |'],
        "docs/reference/compatibility.md": ["| `sarcastic` | used | all of it |"],
        "streamer/client/options.py": ['    sarcasm: Literal["none", "some", "much"]'],
        "streamer/web/options.js": [
            ' * @property {"none" | "some" | "much"} [sarcasm] how much of it is heard',
            '        "label": "Sarcasm",',
        ],
    }
    for name, expected in rows.items():
        assert set(expected) <= set((tree / name).read_text(encoding="utf-8").splitlines())
