"""Models from folders, from archives (well, damaged or malicious), and from a real server that may cut or stall."""

from __future__ import annotations

import bz2
import hashlib
import io
import shutil
import ssl
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from streamer.models.installation import Patience, fetch, fetch_model, import_model, model_in, unpack
from streamer.models.layout import SearchKind
from streamer.models.library import KnownModel, LibraryError, ModelLibrary, PublishedFile
from tests.file_size_limit import most_bytes
from tests.models.archive_shelf import Item, Quiet, Shelf, archive_shelf, packed
from workshop.attack.families.models import new_sparse, old_sparse
from workshop.graphs.exact_icefall import make_transducer_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder


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


def _published(shelf: Shelf, folder: Path) -> KnownModel:
    """Publish the files of a folder one by one."""
    for path in folder.iterdir():
        shelf.put(f"/here/{path.name}", Item(path.read_bytes()))
    listed = tuple(PublishedFile(path.name, path.stat().st_size) for path in sorted(folder.iterdir()))
    return KnownModel("moonshine", f"{shelf.address}/here/", files=listed)


@pytest.fixture(scope="module")
def moonshine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_moonshine_folder(tmp_path_factory.mktemp("moonshine"))


def test_a_model_in_single_files(shelf: Shelf, library: ModelLibrary, moonshine: Path, quiet: Quiet) -> None:
    """Each file is fetched once, whatever interrupts the command; the next fetch must bring the same ones."""
    model = _published(shelf, moonshine)
    shelf.items["/here/encoder.ort"].failures = [404]
    with pytest.raises(LibraryError, match=r"encoder\.ort cannot be fetched: HTTP status 404"):
        fetch_model(library, model, quiet)
    assert library.models() == {}
    folder = fetch_model(library, model, quiet)
    assert files(folder) == files(moonshine)
    assert library.read("moonshine").family.search is SearchKind.DECODER
    assert [path for path, _ in shelf.asked].count("/here/decoder_kv.ort") == 1
    assert left(library) == []
    assert library.pin("moonshine")["address"] == model.address
    assert any("is expected from now on" in said for said in quiet.said)
    library.remove("moonshine")
    table = bytearray((moonshine / "tokenizer.bin").read_bytes())
    table[-4] ^= 1
    shelf.put("/here/tokenizer.bin", Item(bytes(table)))
    with pytest.raises(LibraryError, match=r"is not what it was when it was fetched first"):
        fetch_model(library, model, quiet)
    assert (library.models(), left(library)) == ({}, [])


def test_single_files_from_a_mirror(shelf: Shelf, library: ModelLibrary, moonshine: Path, quiet: Quiet) -> None:
    """A mirror has the files in the folder that is named."""
    model = replace(_published(shelf, moonshine), address="https://nowhere.invalid/here/")
    assert files(fetch_model(library, model, quiet, mirror=f"{shelf.address}/here")) == files(moonshine)


def test_single_files_that_are_others(shelf: Shelf, library: ModelLibrary, moonshine: Path, quiet: Quiet) -> None:
    """A file of another size is deleted; files that are no model are, too."""
    model = _published(shelf, moonshine)
    shelf.put("/here/adapter.ort", Item(b"\0" * 10))
    with pytest.raises(LibraryError, match=r"adapter\.ort has 10 bytes instead of \d+\. The file was deleted"):
        fetch_model(library, model, quiet)
    model = _published(shelf, moonshine)
    size = (moonshine / "adapter.ort").stat().st_size
    shelf.put("/here/adapter.ort", Item(b"\0" * size))
    with pytest.raises(LibraryError, match=r"this model cannot be used: adapter\.ort is cut off or is not"):
        fetch_model(library, model, quiet)
    assert (library.models(), left(library)) == ({}, [])


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


def test_a_given_checksum_counts_more_than_a_remembered_one(
    shelf: Shelf, library: ModelLibrary, small_model: Path, quiet: Quiet
) -> None:
    """Who names another checksum does not get what was fetched before."""
    address = shelf.put("/small.tar.bz2", Item(packed(small_model, "small")))
    fetch_model(library, KnownModel("small", address), quiet)
    library.remove("small")
    with pytest.raises(LibraryError, match="has another checksum than expected"):
        fetch_model(library, KnownModel("small", address, sha256="0" * 64), quiet)


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


CONTENT = bytes(range(256)) * 3000
AT_ONCE = Patience(stall_s=30, attempts=3, wait_s=0)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "archive.part"


def test_a_whole_archive(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """All bytes arrive, and are counted. What is complete is not asked for again."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT))
    fetch(address, part, quiet)
    fetch(address, part, quiet)
    assert part.read_bytes() == CONTENT
    assert quiet.last == ("fetched", len(CONTENT), len(CONTENT))
    assert shelf.asked == [("/a.tar.bz2", "")]


def test_a_cut_connection_goes_on(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """After an interruption only the rest is asked for, and the bytes are those of the archive."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[100_000, 50_000], failures=[503]))
    fetch(address, part, quiet, Patience(attempts=4, wait_s=0))
    assert part.read_bytes() == CONTENT
    assert [asked for _, asked in shelf.asked] == ["", "", "bytes=100000-", "bytes=150000-"]
    assert [said.partition(";")[0] for said in quiet.said] == [
        "HTTP status 503 (Service Unavailable)",
        "the connection ended after 100000 of 768000 bytes",
        "the connection ended after 150000 of 768000 bytes",
    ]


def test_what_came_is_kept_for_another_command(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """After too many interruptions the part stays, and the next command goes on from there."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000, 1000, 1000]))
    with pytest.raises(LibraryError, match="the bytes so far are kept, and the same command goes on from there"):
        fetch(address, part, quiet, AT_ONCE)
    assert part.stat().st_size == 3000
    fetch(address, part, quiet, AT_ONCE)
    assert part.read_bytes() == CONTENT


class Change(NamedTuple):
    """What a server does when it is asked for the rest."""

    item: Item
    asked: list[str]


@pytest.mark.parametrize(
    "change",
    [
        Change(Item(CONTENT[::-1], mark='"2"'), ["", "bytes=1000-"]),  # another version
        Change(Item(CONTENT[::-1], ranges=False), ["", "bytes=1000-"]),  # a server that gives only the whole
        Change(Item(CONTENT[:500][::-1]), ["", "bytes=1000-", ""]),  # shorter than the part, under the same mark
    ],
)
def test_an_archive_that_has_changed_is_fetched_as_a_whole(
    shelf: Shelf, part: Path, quiet: Quiet, change: Change
) -> None:
    """Two versions of an archive are never mixed."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000]))
    with pytest.raises(LibraryError):
        fetch(address, part, quiet, Patience(attempts=1))
    shelf.put("/a.tar.bz2", change.item)
    fetch(address, part, quiet, AT_ONCE)
    assert part.read_bytes() == change.item.content
    assert [asked for _, asked in shelf.asked] == change.asked


@pytest.mark.parametrize("mark", [None, 'W/"1"'])
def test_without_an_exact_mark_everything_is_fetched_again(
    shelf: Shelf, part: Path, quiet: Quiet, mark: str | None
) -> None:
    """A server that does not say which version it has is not asked for a rest."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000], mark=mark))
    fetch(address, part, quiet, AT_ONCE)
    assert part.read_bytes() == CONTENT
    assert [asked for _, asked in shelf.asked] == ["", ""]


def test_another_address_is_another_archive(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """A part from elsewhere is not continued."""
    with pytest.raises(LibraryError):
        fetch(shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000])), part, quiet, Patience(attempts=1))
    fetch(shelf.put("/b.tar.bz2", Item(CONTENT[::-1])), part, quiet)
    assert part.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (None, r"cannot be fetched: HTTP status 404 \(Not Found\)$"),
        (Item(b"x", failures=[403]), r"cannot be fetched: HTTP status 403 \(Forbidden\)$"),
        (Item(b"x", failures=[500] * 3), r"could not be fetched: HTTP status 500 \(Internal Server Error\)$"),
        (Item(b"hello", kind="text/html; charset=utf-8"), "gave a web page in place of an archive"),
        (Item(b"\n <!DOCTYPE html>"), "gave a web page in place of an archive"),
    ],
)
def test_what_is_no_archive(shelf: Shelf, part: Path, quiet: Quiet, item: Item | None, words: str) -> None:
    """A sentence names the address and the reason, and nothing is kept."""
    address = shelf.put("/a.tar.bz2", item) if item else f"{shelf.address}/missing.tar.bz2"
    with pytest.raises(LibraryError, match=words) as caught:
        fetch(address, part, quiet, AT_ONCE)
    assert str(caught.value).startswith(address)
    assert not part.exists()


def test_a_server_that_says_nothing(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """A server that sends nothing is asked again, and then given up."""
    address = shelf.put("/a.tar.bz2", Item(b"", stalls=True))
    with pytest.raises(LibraryError, match=r"could not be fetched: no data came for 0\.05 s"):
        fetch(address, part, quiet, Patience(stall_s=0.05, attempts=2, wait_s=0))
    assert len(shelf.asked) == 2


def test_nobody_there(part: Path, quiet: Quiet) -> None:
    """A refused connection is tried again; a host that does not exist is not."""
    with pytest.raises(LibraryError, match=r"could not be fetched: Connection refused$"):
        fetch("http://127.0.0.1:1/a.tar.bz2", part, quiet, AT_ONCE)
    assert len(quiet.said) == 2
    with pytest.raises(LibraryError, match="cannot be fetched: "):
        fetch("http://[/a.tar.bz2", part, quiet, AT_ONCE)
    assert len(quiet.said) == 2


def test_a_certificate_that_is_not_trusted(part: Path, quiet: Quiet) -> None:
    """The message says which file of roots to name, and there is no second attempt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with archive_shelf(context) as shelf, pytest.raises(LibraryError, match=r"not trusted.*set SSL_CERT_FILE"):
        fetch(f"{shelf.address}/a.tar.bz2", part, quiet, AT_ONCE)
    assert quiet.said == []


def test_through_a_proxy(shelf: Shelf, part: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is used, and the proxy is asked for the whole address."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", shelf.address)
    shelf.put("http://models.example/a.tar.bz2", Item(CONTENT))
    fetch("http://models.example/a.tar.bz2", part, quiet)
    assert part.read_bytes() == CONTENT


def test_there_must_be_space(shelf: Shelf, part: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length is compared with the free space before anything is written."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT))
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=2 * len(CONTENT)))
    with pytest.raises(LibraryError, match=r"not enough space in .*: about 2 MB are needed .* and 2 MB are free"):
        fetch(address, part, quiet)
    assert not part.exists()


def test_a_disk_that_becomes_full(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """What fits is kept, and the same command goes on when there is space."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT))
    with most_bytes(200_000), pytest.raises(LibraryError, match=r"no space is left in .*: free some, and the same"):
        fetch(address, part, quiet)
    fetch(address, part, quiet)
    assert part.read_bytes() == CONTENT
    assert shelf.asked[1][1].startswith("bytes=")


def test_a_length_that_nobody_announced(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """An archive may come without its length; the limit of the size holds all the same."""
    fetch(shelf.put("/a.tar.bz2", Item(CONTENT, lengths=False)), part, quiet)
    assert part.read_bytes() == CONTENT
    assert quiet.last == ("fetched", len(CONTENT), None)


@pytest.mark.parametrize("lengths", [True, False])
def test_what_is_too_large(
    shelf: Shelf, part: Path, quiet: Quiet, lengths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a limit, whether the length is announced or not."""
    monkeypatch.setattr("streamer.models.installation.MOST_DOWNLOADED_BYTES", 1000)
    with pytest.raises(LibraryError, match="is too large"):
        fetch(shelf.put("/a.tar.bz2", Item(CONTENT, lengths=lengths)), part, quiet)


Entries = list[tuple[tarfile.TarInfo, bytes]]


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Entries:
    """A file, or something else, for an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return [(info, content)]


def archive(path: Path, *entries: Entries) -> Path:
    """An archive with these entries, whatever they are."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in (each for several in entries for each in several):
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(bz2.compress(file.getvalue()))
    return path


@pytest.mark.parametrize("kind", ["bz2", "gz", "xz", ""])
def test_a_model_comes_out_as_it_went_in(kind: str, small_model: Path, tmp_path: Path, quiet: Quiet) -> None:
    """Every kind of compression gives the same files, in the folder that the archive has."""
    (tmp_path / "a").write_bytes(packed(small_model, "sherpa/inner", kind))
    unpack(tmp_path / "a", tmp_path / "new", quiet)
    folder = model_in(tmp_path / "new")
    assert folder == tmp_path / "new" / "sherpa" / "inner"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in small_model.iterdir()
    }
    assert quiet.last[0] == "unpacked"


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (entry("/etc/passwd", b"x"), "a file named '/etc/passwd', outside its folder"),
        (entry("a/../../b", b"x"), r"a file named 'a/\.\./\.\./b', outside its folder"),
        (entry("..\\b", b"x"), "outside its folder"),
        (entry("C:b", b"x"), "outside its folder"),
        (entry("a", kind=tarfile.SYMTYPE, link="../../home"), r"'a' links to '\.\./\.\./home'"),
        (entry("a", kind=tarfile.SYMTYPE, link="/etc"), "'a' links to '/etc'"),
        (entry("a/b", kind=tarfile.LNKTYPE, link="../c"), "'a/b' links to"),
        (entry("a", kind=tarfile.CHRTYPE), "'a' is neither a file nor a folder"),
        (entry("a", kind=tarfile.FIFOTYPE), "'a' is neither a file nor a folder"),
    ],
)
def test_what_reaches_outside(entries: Entries, words: str, tmp_path: Path, quiet: Quiet) -> None:
    """Nothing is made of an entry that lies, links or works outside the folder."""
    path = archive(tmp_path / "a.tar.bz2", entries)
    with pytest.raises(LibraryError, match=f"the archive is unsafe: .*{words}"):
        unpack(path, tmp_path / "new", quiet)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a.tar.bz2", "new"]


def test_a_file_through_a_link(tmp_path: Path, quiet: Quiet) -> None:
    """A link is not made, so a file cannot be written through it."""
    path = archive(
        tmp_path / "a.tar.bz2", entry("a", kind=tarfile.SYMTYPE, link="b"), entry("a/c", b"x"), entry("b", b"y")
    )
    unpack(path, tmp_path / "new", quiet)
    assert not (tmp_path / "new" / "a").is_symlink()
    assert (tmp_path / "new" / "a" / "c").read_bytes() == b"x"
    assert (tmp_path / "new" / "b").read_bytes() == b"y"


@pytest.mark.parametrize(
    "content", [old_sparse(1 << 40), *(new_sparse(1 << 40, version) for version in ("0.0", "0.1", "1.0"))]
)
def test_a_sparse_file(content: bytes, tmp_path: Path, quiet: Quiet) -> None:
    """An archive of 230 bytes could fill the disk: a hole of a terabyte takes no room in it."""
    path = tmp_path / "a.tar.bz2"
    path.write_bytes(bz2.compress(content))
    # The file size limit, because the disk of whoever runs this test would be full otherwise.
    with most_bytes(1 << 20), pytest.raises(LibraryError, match=r"'tokens\.txt' is a sparse file"):
        unpack(path, tmp_path / "new", quiet)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_list_of_parts_without_end(tmp_path: Path, quiet: Quiet) -> None:
    """What stands before a file is read to a limit: Python's reader would keep every part of a sparse file."""
    path = tmp_path / "a.tar.bz2"
    path.write_bytes(bz2.compress(old_sparse(1 << 40, parts=20_000)))
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    with pytest.raises(LibraryError, match=r"a\.tar\.bz2 is damaged"):
        unpack(path, tmp_path / "new", quiet)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_path_of_many_folders(tmp_path: Path, quiet: Quiet) -> None:
    """One entry could make a thousand folders, and an archive of a few kilobytes two million."""
    path = archive(tmp_path / "a.tar.bz2", entry("a/" * 500 + "tokens.txt", b"x"))
    with pytest.raises(LibraryError, match="is in more than 15 folders"):
        unpack(path, tmp_path / "new", quiet)
    assert list((tmp_path / "new").iterdir()) == []


def huge_name() -> bytes:
    """A header that claims to be followed by a name of a gigabyte."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return bz2.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))


def backwards() -> bytes:
    """An entry of a negative length, so the next one would begin before it."""
    info = tarfile.TarInfo("a")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (-(1 << 20)).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bz2.compress(bytes(header) + bytes(4096))


@pytest.mark.parametrize(
    "content",
    [
        lambda good: good[: len(good) // 2],
        lambda good: good[:200] + bytes([good[200] ^ 255]) + good[201:],
        lambda good: b"",
        lambda good: b"not an archive",
        lambda good: b"BZh9 not really",
        lambda good: bz2.compress(b"text" * 1000),
        lambda good: bz2.compress(b""),
        lambda good: huge_name(),
        lambda good: backwards(),
    ],
)
def test_what_is_damaged(content: Callable[[bytes], bytes], small_model: Path, tmp_path: Path, quiet: Quiet) -> None:
    """A damaged archive is a sentence, however it is damaged, and takes no memory."""
    path = tmp_path / "a.tar.bz2"
    path.write_bytes(content(packed(small_model, "small")))
    with pytest.raises(LibraryError, match=r"a\.tar\.bz2 is damaged"):
        unpack(path, tmp_path / "new", quiet)


def test_a_file_twice(tmp_path: Path, quiet: Quiet) -> None:
    """The second file of a name does not replace the first one."""
    path = archive(tmp_path / "a.tar.bz2", entry("a", b"x"), entry("a", b"y"))
    with pytest.raises(LibraryError, match="cannot be unpacked: File exists"):
        unpack(path, tmp_path / "new", quiet)


def test_a_small_archive_with_large_files(tmp_path: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes out is counted, and files may be neither too large nor too many."""
    monkeypatch.setattr("streamer.models.installation.MOST_UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr("streamer.models.installation.MOST_ENTRIES", 20)
    bomb = archive(tmp_path / "bomb", *(entry(str(number), bytes(300_000)) for number in range(5)))
    with pytest.raises(LibraryError, match=r"unpacks to more than 0\.0 GB, which is the limit"):
        unpack(bomb, tmp_path / "new", quiet)
    assert sum(path.stat().st_size for path in (tmp_path / "new").iterdir()) <= 1 << 20
    claims = tarfile.TarInfo("a")
    claims.size = 1 << 40
    (tmp_path / "claims").write_bytes(bz2.compress(claims.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    with pytest.raises(LibraryError, match="unpacks to more than"):
        unpack(tmp_path / "claims", tmp_path / "claimed", quiet)
    many = archive(tmp_path / "many", *(entry(str(number)) for number in range(21)))
    with pytest.raises(LibraryError, match="has more than 20 files"):
        unpack(many, tmp_path / "newer", quiet)


def test_a_full_disk(tmp_path: Path, quiet: Quiet) -> None:
    """The sentence says which folder is full."""
    path = archive(tmp_path / "a.tar.bz2", entry("a", bytes(100_000)))
    with most_bytes(50_000), pytest.raises(LibraryError, match=f"no space is left in {tmp_path}"):
        unpack(path, tmp_path / "new", quiet)


def test_an_archive_with_moonshine(library: ModelLibrary, moonshine: Path, tmp_path: Path, quiet: Quiet) -> None:
    """An archive, or a folder, with a model of Moonshine can be imported."""
    archive = tmp_path / "mine.tar.bz2"
    archive.write_bytes(packed(moonshine, "mine"))
    for name, path in (("packed", archive), ("unpacked", moonshine)):
        assert files(import_model(library, name, path, quiet)) == files(moonshine)


def test_which_folder_is_the_model(tmp_path: Path) -> None:
    """There must be one folder with graphs."""
    with pytest.raises(LibraryError, match="there is no model in it"):
        model_in(tmp_path)
    for name in ("64", "128"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").touch()
    with pytest.raises(LibraryError, match=r"several models in it \(128, 64\)"):
        model_in(tmp_path)
