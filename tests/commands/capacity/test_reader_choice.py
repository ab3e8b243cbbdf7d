"""Which reader a service has."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.commands.capacity.reader_choice import PROCESSORS, ChosenReader, choose_reader
from streamer.models import library
from streamer.models.library import LibraryError
from streamer.models.readers import known_readers, reader_library
from tests.engine.reader.scripted_whisper import write_whisper
from tests.models.small_readers import catalogue, entry, put

SMALL, LARGE = "moonshine-tiny", "moonshine-base"


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two readers of the catalogue are known, with other files, and none is here."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    entries = [
        entry("https://example.org/small_voice-1.0-py3-none-any.whl", b"", name=name, million_weights=size)
        | {"installed": "no_such_module/en"}
        for name, size in ((SMALL, 1), (LARGE, 2))
    ]
    monkeypatch.setattr(library, "CATALOGUE", catalogue(tmp_path / "catalogue.json", *entries))


def here(name: str) -> ChosenReader:
    """Put the files of a reader on this machine."""
    return ChosenReader(name, put(reader_library().folder / name))


def processors(monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    monkeypatch.setattr("streamer.commands.capacity.reader_choice.processor_time", lambda: number)


@pytest.mark.parametrize(("number", "chosen"), [(1.0, SMALL), (3.9, SMALL), (4.0, LARGE), (64.0, LARGE)])
def test_the_best_one_that_the_processors_carry(number: float, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The large one needs more processors than the small one, which any machine carries."""
    readers = {name: here(name) for name in (SMALL, LARGE)}
    processors(monkeypatch, number)
    assert choose_reader() == readers[chosen]


def test_none_is_chosen_where_none_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reader on the machine, or with one that is too large for it, there is none."""
    processors(monkeypatch, 2.0)
    assert choose_reader() is None
    large = here(LARGE)
    assert choose_reader() is None
    processors(monkeypatch, 4.0)
    assert choose_reader() == large


def test_a_name_is_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is named is taken whatever the processors are, and `off` means none."""
    processors(monkeypatch, 1.0)
    large, small = here(LARGE), here(SMALL)
    assert [choose_reader(name) for name in (LARGE, SMALL, "off")] == [large, small, None]


def test_a_name_that_is_not_here_or_not_known() -> None:
    """A known reader that is not here is None, and a name that nobody knows is an error."""
    assert choose_reader(LARGE) is None
    with pytest.raises(LibraryError, match="no reader moonshine-bass is known; did you mean moonshine-base"):
        choose_reader("moonshine-bass")


def test_every_known_reader_has_its_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has all readers of the catalogue."""
    monkeypatch.undo()
    assert known_readers().keys() == PROCESSORS.keys()


def test_whisper_models_are_never_chosen_by_themselves(tmp_path: Path) -> None:
    """A user has them for other languages, and names them."""
    own = reader_library().folder / "many"
    own.parent.mkdir(parents=True, exist_ok=True)
    write_whisper(own, ("ĠGuten",))
    assert choose_reader(alone=True) is None
    assert choose_reader("many") == ChosenReader("many", own)
    assert choose_reader(str(own)) == ChosenReader(str(own), own)
