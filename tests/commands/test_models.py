"""`streamer models` as a user runs it, with a real server."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.commands.cli import run
from streamer.commands.models import FetchDisplay
from streamer.models import library
from streamer.models.needs import Machine
from tests.models.archive_shelf import Item, Shelf, archive_shelf, packed
from tests.project import ROOT
from tests.pseudo_terminal import COMMAND, Terminal
from workshop.graphs.exact_icefall import make_ctc_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder
from workshop.graphs.exact_nemo import make_whole_ctc_folder


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    """A server with a small model."""
    with archive_shelf() as shelf:
        yield shelf


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    """The archive of a small model."""
    (tmp_path / "small").mkdir()
    return packed(make_ctc_folder(tmp_path / "small"), "small")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty library."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "streamer" / "models"


@pytest.fixture
def known(shelf: Shelf, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Item:
    """A catalogue with this model, and another that cannot be used yet."""
    small = {"name": "small-en", "languages": ["en"], "family": "Zipformer-2 with CTC", "step_ms": 320}
    small |= {"sha256": hashlib.sha256(archive).hexdigest(), "archive_bytes": len(archive)}
    small |= {"licence": "Apache-2.0", "licence_source": "https://example.org/card"}
    small |= {"errors": [{"corpus": "Letters", "percent": 3.5}], "errors_source": "https://example.org/results"}
    later = {"name": "old-de", "languages": ["de"], "family": "LSTM", "not_yet": "it is an LSTM"}
    path = tmp_path / "catalogue.json"
    languages = {"de": "German", "en": "English"}
    content = {"release": f"{shelf.address}/", "languages": languages, "models": [small, later]}
    content["cost"] = {"rows": [{"million_weights": 1, "ms_alone": 100, "ms_shared": 50}]}
    path.write_text(json.dumps(content))
    monkeypatch.setattr(library, "CATALOGUE", path)
    item = Item(archive)
    shelf.put("/small-en.tar.bz2", item)
    return item


@pytest.mark.usefixtures("known")
def test_the_life_of_a_model(home: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """A model is listed, fetched, made the default and removed."""
    assert run(["models"]) == 0
    shown = capsys.readouterr().out
    assert "* shipped  en, comes with Streamer\n" in shown
    assert "get NAME`:\n  small-en\n      en, Zipformer-2 with CTC, steps of 320 ms, 0 MB to fetch\n" in shown
    assert "licence: Apache-2.0 (https://example.org/card)" in shown
    assert (
        "320 ms, 0 MB to fetch\n      recommended for English on this machine\n      needs at most 0.16 GB of " in shown
    )
    assert "0.10 cores for one stream; here " in shown
    assert "word errors, as published: 3.5 % in Letters\n        (https://example.org/results)" in shown
    assert "not usable yet:\n  old-de  de; it is an LSTM" in shown

    assert run(["models", "get", "small-en"]) == 0
    path, said = capsys.readouterr()
    assert path == f"{home / 'small-en'}\n"
    licence, fetched = said.find("its licence is Apache-2.0"), said.find("small-en: fetched 100 %")
    assert -1 < licence < fetched
    assert run(["models", "get", "small-en"]) == 0
    assert capsys.readouterr().err == "streamer: small-en is already here.\n"
    assert len(shelf.asked) == 1

    assert run(["models", "default", "small-en"]) == 0
    assert run(["models", "default"]) == 0
    assert capsys.readouterr().out == "small-en\n"
    assert run(["models", "list", "--json", "--language", "en"]) == 0
    content = json.loads(capsys.readouterr().out)
    [model] = content["models"]
    assert (content["default"], model["here"], model["path"]) == ("small-en", True, str(home / "small-en"))
    assert model["errors"] == [{"corpus": "Letters", "percent": 3.5}]
    assert (content["recommended"], content["recommended_for"], model["recommended"]) == ("small-en", "en", True)
    assert (model["needs"]["cores"], model["needs"]["basis"]) == (0.1, "files")
    assert model["needs"]["sessions"] > 0
    assert model["state_bytes"] > 4 * 128 * 3 * 19
    assert run(["models"]) == 0
    assert "* small-en\n      en, Zipformer-2 with CTC, steps of 320 ms" in capsys.readouterr().out

    assert run(["models", "remove", "small-en"]) == 0
    assert "small-en was removed; the shipped model is the default again" in capsys.readouterr().err
    assert not (home / "small-en").exists()


def test_the_windows_of_a_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The windows of a model without caches can be chosen. What they cost is said at once, and in the list."""
    folder = home / "heavy"
    folder.mkdir(parents=True)
    make_whole_ctc_folder(folder)
    assert run(["models", "window", "heavy"]) == 0
    assert "heavy: it has no caches, so it computes each moment 7 times: 5600 ms before" in capsys.readouterr().out
    assert run(["models", "window", "heavy", "--left", "2.4", "--right", "0"]) == 0
    assert "computes each moment 3.14 times: 2400 ms before a step of 1120 ms and 0 ms" in capsys.readouterr().out
    assert run(["models", "window", str(folder), "--step", "2.4"]) == 0
    assert "2 times: 2400 ms before a step of 2400 ms and 0 ms" in capsys.readouterr().out
    assert run(["models", "list"]) == 0
    shown = capsys.readouterr().out
    assert "  heavy\n      Whole-utterance NeMo with CTC, steps of 2400 ms, " in shown
    assert "      it has no caches, so it computes each moment 2 times: " in shown

    assert run(["models", "window", "heavy", "--step", "29"]) == 1
    assert "has windows of 3136 frames, and the longest" in capsys.readouterr().err
    assert run(["models", "window", "heavy"]) == 0
    assert "2 times: 2400 ms before a step of 2400 ms" in capsys.readouterr().out  # what could not be was not kept
    (home / "light").mkdir()
    make_ctc_folder(home / "light")
    assert run(["models", "window", "light"]) == 1
    assert "light has caches, so it computes nothing again" in capsys.readouterr().err
    (home / "moonshine").mkdir()
    make_moonshine_folder(home / "moonshine")
    assert run(["models", "window", "moonshine"]) == 1
    assert "moonshine has caches, so it computes nothing again" in capsys.readouterr().err
    assert run(["models", "window", "none"]) == 1
    assert "none is not a folder" in capsys.readouterr().err
    assert run(["models", "window"]) == 2
    assert run(["models", "list", "--left", "1"]) == 2
    assert "--left is only for `streamer models window`" in capsys.readouterr().err


def test_a_model_at_an_address(home: Path, shelf: Shelf, archive: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """A model at an address need not be in the catalogue; the command says that its licence is not known."""
    address = shelf.put("/mine.tar.bz2", Item(archive))
    assert run(["models", "get", address]) == 0
    said = capsys.readouterr().err
    assert "its licence is not known here" in said
    assert "nothing protects it on its way" in said
    assert f"sha256 {hashlib.sha256(archive).hexdigest()} is expected from now on" in said
    (home / "mine" / "tokens.txt").unlink()
    assert run(["models"]) == 0
    assert "  mine\n      the model mine cannot be used: " in capsys.readouterr().out
    assert run(["models", "get", address]) == 0
    assert "it is fetched again" in capsys.readouterr().err
    assert (home / "mine" / "tokens.txt").exists()


@pytest.mark.usefixtures("known")
def test_the_recommended_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says which model it takes, and fetches it. A second one finds it here."""
    assert run(["models", "get", "--recommended"]) == 0
    path, said = capsys.readouterr()
    assert said.startswith("streamer: small-en is recommended for English on this machine.\n")
    assert path == f"{home / 'small-en'}\n"
    assert run(["models", "get", "--recommended", "--language", "English", "--sessions", "2000"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"none carries 2000 sessions here by an estimate, and this one \d+: `streamer plan --model ", said)
    assert "small-en is already here" in said
    assert run(["models", "list", "--json", "--sessions", "2000"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert (listing["recommended"], listing["recommended_sessions"]) == ("small-en", 2000)


@pytest.mark.usefixtures("known")
def test_a_recommended_model_that_may_be_too_slow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If none keeps up by the estimate, the command says so before it fetches the one that needs least."""
    monkeypatch.setattr("streamer.commands.models.this_machine", lambda: Machine(16_000_000_000, 0.05))
    assert run(["models", "get", "--recommended"]) == 0
    said = capsys.readouterr().err
    warning = said.find("it may be slower here than people speak: `streamer plan --model small-en` measures that")
    assert -1 < warning < said.find("fetched 100 %")


@pytest.mark.usefixtures("known")
def test_no_recommended_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence says why there is none, or for which languages there are models."""
    monkeypatch.setattr("streamer.commands.models.this_machine", lambda: Machine(400_000_000, 2.0))
    for language, words in (
        ("en", "for this machine: too large: 1 of 1 (at least 0.2 GB, and models may hold 0.1 GB here); `streamer "),
        ("de", "no model for German can be recommended for this machine: none can be used yet; `streamer models "),
        ("xx", "no model for the language 'xx' is known; there are models for English (en), German (de)."),
    ):
        assert run(["models", "get", "--recommended", "--language", language]) == 1
        assert words in capsys.readouterr().err


@pytest.mark.usefixtures("known")
def test_a_model_from_a_mirror(home: Path, shelf: Shelf, archive: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """A mirror has the archive under its name. What it gives must have the checksum of the catalogue."""
    shelf.put("/mirror/small-en.tar.bz2", Item(archive + b"!"))
    assert run(["models", "get", "small-en", "--from", f"{shelf.address}/mirror/"]) == 1
    said = capsys.readouterr().err
    assert f"{shelf.address}/mirror/small-en.tar.bz2 has another checksum than expected" in said
    assert not (home / "small-en").exists()
    shelf.put("/mirror/small-en.tar.bz2", Item(archive))
    assert run(["models", "get", "small-en", "--from", f"{shelf.address}/mirror"]) == 0
    assert f"from {shelf.address}/mirror/small-en.tar.bz2." in capsys.readouterr().err
    assert {path for path, _ in shelf.asked} == {"/mirror/small-en.tar.bz2"}
    assert (home / "small-en").is_dir()


def test_a_checksum_that_was_remembered_counts_for_a_mirror(
    home: Path, shelf: Shelf, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody has published a checksum, a mirror must give what the model's own address gave first."""
    path = tmp_path / "catalogue.json"
    models = [{"name": "small-en", "languages": ["en"]}]
    path.write_text(json.dumps({"release": f"{shelf.address}/", "languages": {"en": "English"}, "models": models}))
    monkeypatch.setattr(library, "CATALOGUE", path)
    shelf.put("/small-en.tar.bz2", Item(archive))
    assert run(["models", "get", "small-en"]) == 0
    assert run(["models", "remove", "small-en"]) == 0
    shelf.put("/mirror/small-en.tar.bz2", Item(archive + b"!"))
    assert run(["models", "get", "small-en", "--from", f"{shelf.address}/mirror"]) == 1
    assert not (home / "small-en").exists()


@pytest.mark.usefixtures("known")
def test_a_mirror_that_cannot_be_reached(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence names the mirror and what it said. The model's own address is not asked instead."""
    assert run(["models", "get", "small-en", "--from", f"{shelf.address}/mirror"]) == 1
    assert f"{shelf.address}/mirror/small-en.tar.bz2 cannot be fetched: HTTP status 404" in capsys.readouterr().err
    assert run(["models", "get", "small-en", "--from", "http://mirror.invalid/models"]) == 1
    assert "http://mirror.invalid/models/small-en.tar.bz2 cannot be fetched: " in capsys.readouterr().err
    assert [path for path, _ in shelf.asked] == ["/mirror/small-en.tar.bz2"]


def test_a_model_from_a_disk(home: Path, archive: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive and a folder are imported under their names, or under another."""
    (tmp_path / "mine.tar.bz2").write_bytes(archive)
    assert run(["models", "import", str(tmp_path / "mine.tar.bz2")]) == 0
    assert run(["models", "import", str(tmp_path / "small"), "--name", "other"]) == 0
    assert capsys.readouterr().out == f"{home / 'mine'}\n{home / 'other'}\n"
    assert run(["models", "default", "mine"]) == 0
    (home / "mine").rename(tmp_path / "away")
    assert run(["models"]) == 0
    assert "* mine\n      is not here any more\n" in capsys.readouterr().out


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["get", "small"], 1, "no model small is known; did you mean small-en?"),
        (["get", "zebra"], 1, "no model zebra is known; `streamer models` lists those that are."),
        (["get", "old-de"], 1, "old-de cannot be used yet: it is an LSTM."),
        (["get", "https://example.org/page"], 1, "does not end like an archive"),
        (["get", "small-en", "--checksum", "0" * 64], 1, "has another checksum than expected"),
        (["get", "small-en", "--checksum", "12"], 2, "must be the 64 hexadecimal digits"),
        (["import", "missing.tar.bz2"], 1, "missing.tar.bz2 does not exist."),
        (["import", "missing", "--name", "../up"], 1, "is not a valid name of a model"),
        (["remove", "small-en"], 1, "there is no model small-en in "),
        (["remove", "../up"], 1, "is not a valid name of a model"),
        (["default", "small"], 1, "there is no model small on this machine."),
        (["default", "shiped"], 1, "there is no model shiped on this machine; did you mean shipped?"),
        (["get"], 2, "say which model to get; see streamer models --help."),
        (["list", "small-en"], 2, "unexpected argument 'small-en'"),
        (["get", "small-en", "--json"], 2, "--json is only for `streamer models list`"),
        (["get", "small-en", "--from", "mirror"], 2, "--from must be the address of a folder, such as https://"),
        (["get", "https://a.org/b.tar", "--from", "https://c.org"], 2, "--from is only for models with a name"),
        (["list", "--from", "https://c.org"], 2, "--from is only for `streamer models get`"),
        (["get", "small-en", "--recommended"], 2, "--recommended chooses the model: leave out its name"),
        (["get", "small-en", "--language", "en"], 2, "--language of `streamer models get` needs --recommended"),
        (["get", "small-en", "--sessions", "2"], 2, "--sessions of `streamer models get` needs --recommended"),
        (["remove", "small-en", "--sessions", "2"], 2, "--sessions is only for `streamer models list`"),
        (["list", "--recommended"], 2, "--recommended is only for `streamer models get`"),
        (["fetch", "small-en"], 2, "invalid choice: 'fetch'"),
    ],
)
def test_what_cannot_be_done(arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence says what is wrong, and what to do."""
    try:
        found = run(["models", *arguments])
    except SystemExit as end:
        found = int(str(end.code))
    said = capsys.readouterr().err
    assert found == status
    assert words in said
    assert said.splitlines()[-1][-1] in ".?"


def test_a_bar_on_a_terminal(home: Path, shelf: Shelf, archive: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """The bar grows in place. Ctrl-C keeps what came, and the same command goes on."""
    half = len(archive) // 2
    address = shelf.put("/mine.tar.bz2", Item(archive, cuts=[half], holds=True))
    terminal = Terminal("models", "get", address, width=120)
    terminal.watch("50 %")
    terminal.type("\x03")
    assert terminal.status() == 130
    assert "mine: interrupted; the bytes so far are kept, and the same command goes on from there." in terminal.shown
    assert not (home / "mine").exists()
    assert run(["models"]) == 0
    assert "  mine\n      0 MB are here already\n" in capsys.readouterr().out
    terminal = Terminal("models", "get", address, width=120)
    assert terminal.status() == 0
    assert "unpacked  ████████████████████  100 %" in terminal.shown
    assert [asked for _, asked in shelf.asked] == ["", f"bytes={half}-"]
    assert (home / "mine").is_dir()


@pytest.mark.usefixtures("known")
def test_names_are_completed(home: Path, archive: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Tab key knows which models can be fetched, and which are here."""
    (tmp_path / "mine.tar.bz2").write_bytes(archive)
    assert run(["models", "import", str(tmp_path / "mine.tar.bz2")]) == 0

    def offered(*words: str) -> list[str]:
        line = " ".join(["streamer", "models", *words])
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
        answer = tmp_path / "answer"
        environment = {**os.environ, **asked, "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "PYTHONPATH": str(ROOT)}
        subprocess.run(COMMAND, env=environment, cwd=tmp_path, capture_output=True, check=True)
        return [word.strip() for word in answer.read_text().splitlines()]

    assert set(offered("")) == {"list", "get", "import", "remove", "default", "window"}
    assert "sherpa-onnx-streaming-zipformer-en-2023-06-26" in offered("get", "sherpa")
    assert offered("remove", "m") == ["mine"]
    assert set(offered("default", "")) == {"mine", "shipped"}
    assert offered("import", "mine.t") == ["mine.tar.bz2"]


# How the progress of a download is written.


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Whether it is one."""
        return True


def test_lines_for_a_file() -> None:
    """A file gets a line for each tenth, and none if the length is not known."""
    stream = io.StringIO()
    with FetchDisplay(stream, "mine") as display:
        for done in range(0, 2_000_001, 50_000):
            display.progress("fetched", done, 2_000_000)
        display.progress("unpacked", 1, None)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "streamer: mine: fetched 10 % of 2.0 MB."
    assert len(lines) == 10


def test_a_bar_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar has the amount, the speed of this attempt and the remaining time, and is not drawn too often."""
    monkeypatch.setenv("TERM", "xterm")
    stream, times = Screen(), iter([0.0, 0.1, 2.0])
    with FetchDisplay(stream, "mine", clock=lambda: next(times)) as display:
        for done in (4_000_000, 4_100_000, 5_000_000):
            display.progress("fetched", done, 10_000_000)
    assert "fetched  ██████████░░░░░░░░░░   50 %, 5.0 of 10.0 MB, 0.5 MB/s, 0:10 left" in stream.getvalue()
    assert "4.1 of" not in stream.getvalue()
