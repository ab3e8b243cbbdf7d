"""The readers of the catalogue, and where their files are found: with the user, or in an installed package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from streamer.models import library
from streamer.models.library import LibraryError, ModelLibrary, known_models, valid_name
from streamer.models.readers import (
    PROCESSORS,
    ChosenReader,
    check_reader,
    choose_reader,
    find_reader,
    known_reader,
    known_readers,
    reader_library,
    readers_here,
)
from tests.models.small_readers import FILES, NAME, catalogue, entry, put

OTHER = "larger-reader"


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two readers are known: a small one, and a larger one that nobody has."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    address = "https://example.org/small_voice-1.0-py3-none-any.whl"
    larger = entry(address, b"", name=OTHER, million_weights=2) | {"installed": "no_such_module/en"}
    path = catalogue(tmp_path / "catalogue.json", entry(address, b""), larger)
    monkeypatch.setattr(library, "CATALOGUE", path)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with the files. Whoever imports it fails."""
    module = tmp_path / "site-packages" / "small_voice"
    folder = put(module / "assets" / "en")
    (module / "__init__.py").write_text("raise RuntimeError('this library is not wanted')\n")
    monkeypatch.syspath_prepend(str(module.parent))
    return folder


def test_a_reader_of_a_package(package: Path) -> None:
    """It is found without an import of the package."""
    assert find_reader(NAME) == find_reader() == package
    assert readers_here() == {NAME: package}
    assert "small_voice" not in sys.modules


def test_that_of_the_user_comes_first(package: Path) -> None:
    """What was fetched is used, if it is complete; otherwise the package."""
    mine = put(reader_library().folder / NAME)
    assert find_reader(NAME) == mine
    (mine / "tokenizer.bin").write_bytes(b"")
    assert find_reader(NAME) == package
    assert find_reader(NAME, ModelLibrary(mine.parent)) == package


@pytest.mark.usefixtures("package")
def test_the_largest_is_the_usual_one() -> None:
    """Without a name, the reader with the most weights is meant."""
    assert list(known_readers()) == [OTHER, NAME]
    assert find_reader(OTHER) is None
    larger = put(reader_library().folder / OTHER)
    assert find_reader() == larger
    assert list(readers_here()) == [OTHER, NAME]


def test_no_reader() -> None:
    """None is here: neither with the user nor in a package. An unknown name is a sentence."""
    assert find_reader() is None
    assert find_reader(NAME) is None
    assert readers_here() == {}
    with pytest.raises(LibraryError, match=r"no reader smal-reader is known; did you mean small-reader\?"):
        find_reader("smal-reader")
    with pytest.raises(
        LibraryError, match="no reader zebra is known; those that are known are larger-reader and small-"
    ):
        find_reader("zebra")


def test_another_version_of_a_package(package: Path) -> None:
    """A version with other weights, or with none, counts as no reader."""
    (package / "encoder.ort").write_bytes(FILES["encoder.ort"] + b"x")
    assert find_reader(NAME) is None
    for file in package.iterdir():
        file.unlink()
    assert find_reader(NAME) is None


def test_a_damaged_reader(package: Path) -> None:
    """A check reads all bytes, and the sentence names the file."""
    reader = known_reader(NAME)
    check_reader(reader, package)
    (package / "decoder.ort").write_bytes(FILES["decoder.ort"][::-1])
    with pytest.raises(LibraryError, match=r"decoder\.ort is damaged: its sha256 is [0-9a-f]{64}, not "):
        check_reader(reader, package)
    (package / "decoder.ort").write_bytes(b"")
    with pytest.raises(LibraryError, match=r"decoder\.ort has 0 bytes instead of 6300"):
        check_reader(reader, package)
    (package / "decoder.ort").unlink()
    with pytest.raises(LibraryError, match=r"decoder\.ort: No such file"):
        check_reader(reader, package)


def test_every_entry_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader has a licence with its source, checksums, a wheel of a pinned version, and a name of its own."""
    monkeypatch.undo()
    readers = known_readers()
    assert list(readers) == ["moonshine-base", "moonshine-tiny"]
    assert not set(readers) & set(known_models())
    for name, reader in readers.items():
        assert valid_name(name) == name
        assert (reader.maker, reader.languages, reader.licence) == ("Moonshine AI", ("en",), "MIT")
        assert reader.licence_source.startswith("https://")
        wheel = reader.wheel
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in (wheel.sha256, *(f.sha256 for f in reader.files)))
        assert re.fullmatch(rf"https://files\.pythonhosted\.org/\S+/{re.escape(wheel.file_name)}", wheel.address)
        assert wheel.file_name.startswith(f"{wheel.package.replace('-', '_')}-{wheel.version}-")
        assert wheel.platform in wheel.file_name
        assert all(re.fullmatch(r"https://\S+/", address) for address in reader.addresses)
        assert wheel.folder.endswith(reader.installed)
        assert 40e6 < reader.size < 80e6


def test_the_package_of_the_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The extra `reader`, which the tests have, brings the real weights of the smallest reader, bit by bit."""
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "moonshine_voice", raising=False)  # if another test has used it
    folder = find_reader("moonshine-tiny", ModelLibrary(tmp_path / "none"))
    assert folder is not None
    check_reader(known_reader("moonshine-tiny"), folder)
    assert "moonshine_voice" not in sys.modules


# Which reader a service has.


SMALL, LARGE = "moonshine-tiny", "moonshine-base"


@pytest.fixture
def two_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two readers of the shipped catalogue are known, with other files, and none is here."""
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
    monkeypatch.setattr("streamer.models.readers.processor_time", lambda: number)


@pytest.mark.usefixtures("two_known")
@pytest.mark.parametrize(("number", "chosen"), [(1.0, SMALL), (3.9, SMALL), (4.0, LARGE), (64.0, LARGE)])
def test_the_best_one_that_the_processors_carry(number: float, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The large one needs more processors than the small one, which any machine carries."""
    readers = {name: here(name) for name in (SMALL, LARGE)}
    processors(monkeypatch, number)
    assert choose_reader() == readers[chosen]


@pytest.mark.usefixtures("two_known")
def test_none_is_chosen_where_none_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reader on the machine, or with one that is too large for it, there is none."""
    processors(monkeypatch, 2.0)
    assert choose_reader() is None
    large = here(LARGE)
    assert choose_reader() is None
    processors(monkeypatch, 4.0)
    assert choose_reader() == large


@pytest.mark.usefixtures("two_known")
def test_a_name_is_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is named is taken whatever the processors are, and `off` means none."""
    processors(monkeypatch, 1.0)
    large, small = here(LARGE), here(SMALL)
    assert [choose_reader(name) for name in (LARGE, SMALL, "off")] == [large, small, None]


@pytest.mark.usefixtures("two_known")
def test_a_name_that_is_not_here_or_not_known() -> None:
    """A known reader that is not here is None, and a name that nobody knows is an error."""
    assert choose_reader(LARGE) is None
    with pytest.raises(LibraryError, match="no reader moonshine-bass is known; did you mean moonshine-base"):
        choose_reader("moonshine-bass")


def test_every_known_reader_has_its_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has all readers of the catalogue."""
    monkeypatch.undo()
    assert known_readers().keys() == PROCESSORS.keys()


def test_whisper_models_are_never_chosen_by_themselves() -> None:
    """A user has them for other languages, and names them."""
    own = reader_library().folder / "many"
    own.mkdir(parents=True)
    nothing = bytes(8)  # neither weights nor other names for them
    (own / "model.bin").write_bytes(b"\x06\0\0\0\x0c\0WhisperSpec\0\x03\0\0\0" + nothing)
    (own / "vocabulary.txt").write_text("a\n<|endoftext|>\n<|de|>\n")
    assert choose_reader(alone=True) is None
    assert choose_reader("many") == ChosenReader("many", own)
    assert choose_reader(str(own)) == ChosenReader(str(own), own)
