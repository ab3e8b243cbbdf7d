"""Models from a real server, from archives and from folders."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from streamer.graphs.families.family import SearchKind
from streamer.library import LibraryError
from streamer.library.catalogue import KnownModel
from streamer.library.download import Patience
from streamer.library.installation import fetch_model, import_model
from streamer.library.model_library import ModelLibrary
from streamer.testing.graphs.exact_zipformer2 import make_transducer_folder
from tests.file_size_limit import most_bytes
from tests.library.archive_shelf import Item, Quiet, Shelf, packed


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def left(library: ModelLibrary) -> list[str]:
    """What is in the library besides the models: what was left of one that was not made, and of its lock."""
    return [path.name for path in library.folder.glob(".*") if path.name != ".pins"]


@pytest.mark.parametrize("published", [True, False])
def test_a_model_is_fetched(
    shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet, published: bool
) -> None:
    """Its files are those of the archive, it can be used, and nothing else is left."""
    content = packed(small_model, "some-name")
    checksum = hashlib.sha256(content).hexdigest()
    address = shelf.put("/small.tar.bz2", Item(content))
    model = KnownModel("small", address, sha256=checksum.upper() if published else "")
    folder = fetch_model(library, model, quiet)
    assert folder == library.find("small")
    assert files(folder) == files(small_model)
    assert library.read("small").family.search is SearchKind.CTC
    assert left(library) == []
    assert library.pin("small") == {"address": address, "sha256": checksum}
    assert [checksum in said for said in quiet.said] == [True] * (not published)


def test_a_wrong_checksum(shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet) -> None:
    """The archive is deleted, and no model is there."""
    address = shelf.put("/small.tar.bz2", Item(packed(small_model, "small")))
    with pytest.raises(LibraryError, match=r"has another checksum than expected: .*The archive was deleted"):
        fetch_model(library, KnownModel("small", address, sha256="0" * 64), quiet)
    assert (library.models(), left(library)) == ({}, [])


def test_another_archive_at_the_same_address(
    shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet
) -> None:
    """What was fetched first is expected later, unless somebody says that it was replaced on purpose."""
    address = shelf.put("/small.tar.bz2", Item(packed(small_model, "small")))
    fetch_model(library, KnownModel("small", address), quiet)
    library.remove("small")
    other = packed(small_model, "another")
    shelf.put("/small.tar.bz2", Item(other))
    found = hashlib.sha256(other).hexdigest()
    with pytest.raises(LibraryError, match=rf"is not what it was when .* give --checksum {found}"):
        fetch_model(library, KnownModel("small", address), quiet)
    assert fetch_model(library, KnownModel("small", address, sha256=found), quiet).is_dir()
    assert library.pin("small")["sha256"] == found


def test_a_model_that_cannot_be_used(
    shelf: Shelf, library: ModelLibrary, small_model: Path, tmp_path: Path, quiet: Quiet
) -> None:
    """The check of `--model FOLDER` decides, and its sentence does not show hidden folders."""
    broken = shutil.copytree(small_model, tmp_path / "broken")
    (broken / "tokens.txt").write_text("a 0\n")
    address = shelf.put("/small.tar.bz2", Item(packed(broken, "small")))
    with pytest.raises(LibraryError, match=r"^this model cannot be used: tokens\.txt lacks 23 of the 24 tokens"):
        fetch_model(library, KnownModel("small", address), quiet)
    assert (library.models(), left(library)) == ({}, [])


def test_a_failed_command_leaves_nothing(shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet) -> None:
    """Where nothing came, no folder stays: neither that of the model, nor its lock, nor those above them."""
    missing = KnownModel("missing", f"{shelf.address}/missing.tar.bz2")
    with pytest.raises(LibraryError, match="404"):
        fetch_model(library, missing, quiet)
    damaged = shelf.put("/damaged.tar.bz2", Item(b"no archive"))
    with pytest.raises(LibraryError, match="is damaged"):
        fetch_model(library, KnownModel("damaged", damaged), quiet)
    large = shelf.put("/large.tar.bz2", Item(packed(small_model, "large")))
    with most_bytes(0), pytest.raises(LibraryError, match="no space is left"):
        fetch_model(library, KnownModel("large", large), quiet)
    with pytest.raises(LibraryError, match="does not exist"):
        import_model(library, "mine", library.folder / "mine.tar.bz2", quiet)
    with pytest.raises(LibraryError, match="there is no model mine"):
        library.remove("mine")
    assert not library.folder.exists()


def test_an_interrupted_model_is_not_visible(
    shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet
) -> None:
    """A part of an archive is kept out of sight; the next command goes on with it."""
    content = packed(small_model, "small")
    address = shelf.put("/small.tar.bz2", Item(content, cuts=[1000]))
    with pytest.raises(LibraryError, match="the bytes so far are kept"):
        fetch_model(library, KnownModel("small", address), quiet, Patience(attempts=1))
    assert (library.models(), library.begun()) == ({}, {"small": 1000})
    fetch_model(library, KnownModel("small", address), quiet)
    assert (list(library.models()), library.begun()) == (["small"], {})
    assert shelf.asked[1][1] == "bytes=1000-"


def test_a_full_disk_while_unpacking(shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet) -> None:
    """The archive is kept, so it need not be fetched again."""
    content = packed(small_model, "small")
    address = shelf.put("/small.tar.bz2", Item(content))
    assert max(map(len, files(small_model).values())) > len(content)
    with most_bytes(len(content)), pytest.raises(LibraryError, match="no space is left"):
        fetch_model(library, KnownModel("small", address), quiet)
    assert (library.models(), library.begun()) == ({}, {"small": len(content)})
    fetch_model(library, KnownModel("small", address), quiet)
    assert len(shelf.asked) == 1


def test_a_damaged_model_is_replaced(shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet) -> None:
    """A new model takes the place of one that is there."""
    address = shelf.put("/small.tar.bz2", Item(packed(small_model, "small")))
    fetch_model(library, KnownModel("small", address), quiet)
    (library.folder / "small" / "model.onnx").write_bytes(b"")
    fetch_model(library, KnownModel("small", address), quiet)
    assert files(library.folder / "small") == files(small_model)
    assert left(library) == []


def test_two_at_once(shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet) -> None:
    """A second command for the same model is refused, one for another model is not."""
    address = shelf.put("/small.tar.bz2", Item(packed(small_model, "small")))
    with library.locked("small"):
        with pytest.raises(LibraryError, match="another command is at work on small"):
            fetch_model(library, KnownModel("small", address), quiet)
        fetch_model(library, KnownModel("other", address), quiet)
    assert list(library.models()) == ["other"]


def test_import_of_an_archive(library: ModelLibrary, small_model: Path, tmp_path: Path, quiet: Quiet) -> None:
    """An archive on a disk becomes a model, and stays as it is."""
    path = tmp_path / "mine.tar.bz2"
    path.write_bytes(packed(small_model, "mine"))
    assert files(import_model(library, "mine", path, quiet)) == files(small_model)
    assert path.is_file()
    with pytest.raises(LibraryError, match="there is a model mine already"):
        import_model(library, "mine", path, quiet)


def test_import_of_a_folder(library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """Its files are copied, those behind links too; subfolders are left out."""
    folder = tmp_path / "sherpa"
    folder.mkdir()
    make_transducer_folder(folder)
    (folder / "tokens.txt").rename(tmp_path / "elsewhere.txt")
    (folder / "tokens.txt").symlink_to(tmp_path / "elsewhere.txt")
    (folder / "test_wavs").mkdir()
    new = import_model(library, "mine", folder, quiet)
    assert library.read("mine").family.search is SearchKind.TRANSDUCER
    assert not (new / "tokens.txt").is_symlink()
    assert sorted(files(new)) == sorted(path.name for path in folder.iterdir() if path.is_file())


def test_what_cannot_be_imported(library: ModelLibrary, small_model: Path, tmp_path: Path, quiet: Quiet) -> None:
    """A sentence says what is wrong, and nothing of it is in the library."""
    with pytest.raises(LibraryError, match="missing does not exist"):
        import_model(library, "mine", tmp_path / "missing", quiet)
    with pytest.raises(LibraryError, match=r"is not the folder of a public model"):
        import_model(library, "mine", tmp_path, quiet)
    broken = shutil.copytree(small_model, tmp_path / "broken")
    (broken / "tokens.txt").unlink()
    with pytest.raises(LibraryError, match=rf"{broken}/tokens\.txt is missing"):
        import_model(library, "mine", broken, quiet)
    (tmp_path / "text.tar.bz2").write_text("text")
    with pytest.raises(LibraryError, match=r"text\.tar\.bz2 is damaged"):
        import_model(library, "mine", tmp_path / "text.tar.bz2", quiet)
    assert library.models() == {}
