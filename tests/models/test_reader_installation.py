"""Readers from a real server, a real pip, and packages that are well, damaged or malicious."""

from __future__ import annotations

import os
import random
import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from streamer.models.installation import Patience
from streamer.models.library import LibraryError, ModelLibrary
from streamer.models.reader_installation import fetch_reader, import_reader, reader_at, unpack_reader
from streamer.models.readers import KnownReader, check_reader, known_readers
from tests.file_size_limit import most_bytes
from tests.models.archive_shelf import Item, Quiet, Shelf
from tests.models.small_readers import (
    FILES,
    FOLDER,
    LICENCE,
    NAME,
    Member,
    catalogue,
    entry,
    member,
    members,
    put,
    wheel,
)

FILE = "small_voice-1.0-py3-none-any.whl"
ONCE = Patience(attempts=1)


def known(tmp_path: Path, address: str, *addresses: str, content: bytes | None = None) -> KnownReader:
    """The reader whose wheel is at this address, and whose single files are in these."""
    content = wheel() if content is None else content
    return known_readers(catalogue(tmp_path / "catalogue.json", entry(address, content, *addresses)))[NAME]


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def left(readers: ModelLibrary) -> list[str]:
    """What is there besides readers."""
    return [path.name for path in readers.folder.glob(".*")]


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip has no index, unless a test names one."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_a_reader_is_fetched(shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """Only its files and the licence are kept, and nothing else is left."""
    reader = known(tmp_path, shelf.put(f"/{FILE}", Item(wheel())))
    folder = fetch_reader(library, reader, quiet)
    assert folder == library.find(NAME)
    assert files(folder) == {**FILES, "LICENSE": b"do what you like"}
    check_reader(reader, folder)
    assert (left(library), quiet.said) == ([], [])
    assert quiet.last == ("unpacked", reader.size, reader.size)


def test_an_interruption(shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """A source that has given bytes is not left for another one: the same command goes on with it."""
    reader = known(tmp_path, shelf.put(f"/{FILE}", Item(wheel(), cuts=[500])), f"{shelf.address}/single/")
    with pytest.raises(LibraryError, match="the bytes so far are kept, and the same command goes on from there"):
        fetch_reader(library, reader, quiet, ONCE)
    assert (library.models(), library.begun()) == ({}, {NAME: 500})
    fetch_reader(library, reader, quiet, ONCE)
    assert shelf.asked == [(f"/{FILE}", ""), (f"/{FILE}", "bytes=500-")]
    assert list(library.models()) == [NAME]


def test_single_files_of_the_makers(shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """Where neither PyPI nor pip has the package, the files come from the makers, one by one."""
    for name, content in FILES.items():
        shelf.put(f"/single/{name}", Item(content, cuts=[700] if name == "decoder.ort" else []))
    reader = known(tmp_path, f"{shelf.address}/{FILE}", f"{shelf.address}/gone/", f"{shelf.address}/single/")
    with pytest.raises(LibraryError, match="the bytes so far are kept"):
        fetch_reader(library, reader, quiet, ONCE)
    assert library.begun() == {NAME: 700}
    assert [said.partition(" could")[0].partition(" cannot")[0] for said in quiet.said] == [
        f"{shelf.address}/{FILE}",
        "pip",
        f"{shelf.address}/gone/encoder.ort",
    ]
    assert quiet.said[0].endswith("HTTP status 404 (Not Found); trying pip")
    folder = fetch_reader(library, reader, quiet, ONCE)
    assert files(folder) == FILES
    assert [path for path, _ in shelf.asked if path == "/single/encoder.ort"] == ["/single/encoder.ort"]
    assert shelf.asked[-2:] == [("/single/decoder.ort", "bytes=700-"), ("/single/tokenizer.bin", "")]
    assert left(library) == []


def test_what_pip_finds(
    shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip may know an index that has the package, where PyPI is out of reach. Its file must be the same."""
    reader = known(tmp_path, f"{shelf.address}/gone/{FILE}")
    shelf.put(f"/index/{FILE}", Item(wheel()))
    shelf.put("/index/small-voice/", Item(f'<a href="/index/{FILE}">{FILE}</a>'.encode(), kind="text/html"))
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"{shelf.address}/index/")
    folder = fetch_reader(library, reader, quiet)
    assert files(folder) == {**FILES, "LICENSE": b"do what you like"}
    assert [said.rpartition("; ")[2] for said in quiet.said] == ["trying pip"]
    assert left(library) == []
    library.remove(NAME)
    shelf.put(f"/index/{FILE}", Item(wheel([member(f"{FOLDER}/encoder.ort", b"something else")])))
    with pytest.raises(LibraryError, match="could not be fetched from any of its 2 sources"):
        fetch_reader(library, reader, quiet)
    assert "what pip fetched for small-voice==1.0 has another checksum" in quiet.said[-1]
    assert (library.models(), left(library)) == ({}, [])


@pytest.mark.parametrize("single", [False, True])
def test_another_file_than_expected(
    single: bool, shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet
) -> None:
    """A package or a file with another checksum is deleted, and no reader is there."""
    address = shelf.put(f"/{FILE}", Item(b"another one" if not single else b"", failures=[404] if single else []))
    for name, content in FILES.items():
        shelf.put(f"/single/{name}", Item(content[::-1]))
    reader = known(tmp_path, address, f"{shelf.address}/single/")
    with pytest.raises(LibraryError, match=f"{NAME} could not be fetched from any of its 3 sources"):
        fetch_reader(library, reader, quiet)
    assert sum("has another checksum than expected" in said for said in quiet.said) == 2 - single
    assert (library.models(), library.begun(), left(library)) == ({}, {}, [])


def test_two_at_once(shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """A second command for the same reader is refused."""
    reader = known(tmp_path, shelf.put(f"/{FILE}", Item(wheel())))
    with library.locked(NAME), pytest.raises(LibraryError, match=f"another command is at work on {NAME}"):
        fetch_reader(library, reader, quiet)
    assert shelf.asked == []


def test_a_full_disk(shelf: Shelf, library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """No other source is tried; what came is kept, so it need not be fetched again."""
    content = wheel()
    reader = known(tmp_path, shelf.put(f"/{FILE}", Item(content)), f"{shelf.address}/single/")
    assert max(map(len, FILES.values())) > len(content)
    with (
        most_bytes(len(content)),
        pytest.raises(LibraryError, match=r"no space is left in .*: free some and try again"),
    ):
        fetch_reader(library, reader, quiet)
    assert (library.models(), library.begun()) == ({}, {NAME: len(content)})
    fetch_reader(library, reader, quiet)
    assert len(shelf.asked) == 1


def test_a_reader_from_a_disk(library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """A package and a folder are imported. Which reader it is, the name of the package or the files say."""
    reader = known(tmp_path, f"https://example.org/{FILE}")
    package = tmp_path / "small_voice-1.0-py3-none-other_platform.whl"
    package.write_bytes(wheel())
    assert reader_at(package, {NAME: reader}) == reader
    assert files(import_reader(library, reader, package, quiet)) == {**FILES, "LICENSE": b"do what you like"}
    folder = put(tmp_path / "mine")
    assert reader_at(folder, {NAME: reader}) == reader
    assert files(import_reader(library, reader, folder, quiet)) == FILES
    (folder / "encoder.ort").write_bytes(FILES["encoder.ort"][::-1])
    with pytest.raises(LibraryError, match=r"^this reader cannot be used: encoder\.ort is damaged"):
        import_reader(library, reader, folder, quiet)
    (folder / "encoder.ort").unlink()
    assert reader_at(folder, {NAME: reader}) is None
    assert reader_at(package.rename(tmp_path / "small_voice-1.1-py3-none-any.whl"), {NAME: reader}) is None
    assert left(library) == []


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ([member("/etc/passwd", b"x")], "a file named '/etc/passwd', outside its folder"),
        ([member("a/../../b", b"x")], r"a file named 'a/\.\./\.\./b', outside its folder"),
        ([member("..\\b", b"x")], "outside its folder"),
        ([member("C:b", b"x")], "outside its folder"),
        ([member("a", b"/etc", kind=stat.S_IFLNK | 0o777)], "'a' is neither a file nor a folder"),
        ([member(f"{FOLDER}/more", b"../../../b", kind=stat.S_IFLNK | 0o777)], "is neither a file nor a folder"),
        ([member("a", kind=stat.S_IFIFO | 0o600)], "'a' is neither a file nor a folder"),
        ([member("a", kind=stat.S_IFCHR | 0o600)], "'a' is neither a file nor a folder"),
        ([member("a", bytes(9), method=zipfile.ZIP_BZIP2)], "'a' is encrypted, or compressed in an unusual way"),
        ([member("a", bytes(9), method=zipfile.ZIP_LZMA)], "'a' is encrypted, or compressed in an unusual way"),
        ([member("a", b"x"), member("./a", b"y")], r"it has '\./a' twice"),
    ],
)
def test_what_is_unsafe(added: list[Member], words: str, tmp_path: Path, quiet: Quiet) -> None:
    """A package with anything unsafe in it is refused before any of its files is written."""
    reader = known(tmp_path, FILE)
    (tmp_path / FILE).write_bytes(wheel([*added, *members()]))
    with pytest.raises(LibraryError, match=f"the package is unsafe: .*{words}"):
        unpack_reader(reader, tmp_path / FILE, tmp_path / "new", quiet)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_twice(tmp_path: Path, quiet: Quiet) -> None:
    """Nobody can tell which of two files of one name is meant."""
    (tmp_path / FILE).write_bytes(wheel([*members(), member(f"{FOLDER}/encoder.ort", b"x")]))
    with pytest.raises(LibraryError, match=rf"the package is unsafe: it has '{FOLDER}/encoder\.ort' twice"):
        unpack_reader(known(tmp_path, FILE), tmp_path / FILE, tmp_path / "new", quiet)


def test_what_it_must_have(tmp_path: Path, quiet: Quiet) -> None:
    """A package without a file of the reader, or with one of another size, is no package of it."""
    reader = known(tmp_path, FILE)
    (tmp_path / FILE).write_bytes(wheel(members()[:-2]))
    with pytest.raises(LibraryError, match=rf"has no file {FOLDER}/tokenizer\.bin"):
        unpack_reader(reader, tmp_path / FILE, tmp_path / "new", quiet)
    (tmp_path / FILE).write_bytes(wheel([member(f"{FOLDER}/{name}", bytes(1 << 24)) for name in FILES]))
    with pytest.raises(LibraryError, match=r"has 16777216 bytes of encoder\.ort instead of 4900"):
        unpack_reader(reader, tmp_path / FILE, tmp_path / "newer", quiet)
    assert list((tmp_path / "newer").iterdir()) == []


def test_a_licence_that_is_missing_or_too_long(tmp_path: Path, quiet: Quiet) -> None:
    """The reader works without the text of its licence, and a text that is no licence is not kept."""
    reader = known(tmp_path, FILE)
    for number, contents in enumerate([members()[:-1], [*members()[:-1], member(LICENCE, bytes(100_000))]]):
        (tmp_path / FILE).write_bytes(wheel(contents))
        unpack_reader(reader, tmp_path / FILE, tmp_path / f"new{number}", quiet)
        assert files(tmp_path / f"new{number}") == FILES


# Where the fields of an entry of the directory are, from the beginning of the entry.
METHOD, FLAGS, PACKED, SIZE, PLACE = 10, 8, 20, 24, 42
ENCODER = f"{FOLDER}/encoder.ort".encode()


def patched(content: bytes, field: int, value: int, width: int = 4) -> bytes:
    """A package whose directory says something else about the encoder."""
    begin = content.rindex(ENCODER) - 46
    assert content[begin : begin + 4] == b"PK\1\2"
    return content[: begin + field] + value.to_bytes(width, "little") + content[begin + field + width :]


def long_directory(content: bytes) -> bytes:
    """A package whose directory has as many entries as fit into 16 MB."""
    directory = content.index(b"PK\1\2")
    one = content[directory : content.index(b"PK\1\2", directory + 4)]
    many = (1 << 24) // len(one)
    end = content[content.rindex(b"PK\5\6") :]
    length = (many * len(one)).to_bytes(4, "little")
    return content[:directory] + one * many + end[:8] + b"\1\0" * 2 + length + end[16:]


@pytest.mark.parametrize(
    "change",
    [
        lambda good: good[: len(good) // 2],
        lambda good: good[:-30],
        lambda good: b"",
        lambda good: b"not a package",
        lambda good: b"PK\5\6" + bytes(18),
        lambda good: b"PK\5\6" + b"\xff" * 18,
        lambda good: patched(good, PLACE, 1 << 31),
        lambda good: patched(good, PLACE, 0),
        lambda good: patched(good[:-6] + b"\xff\xff\0\0" + good[-2:], PLACE, 0),
        lambda good: patched(good, PACKED, 3),
        lambda good: good.replace(b"encoder" * 9, b"elcoder" * 9),
        long_directory,
    ],
    ids=lambda change: getattr(change, "__name__", ""),
)
def test_what_is_damaged(change: Callable[[bytes], bytes], tmp_path: Path, quiet: Quiet) -> None:
    """A damaged package is a sentence, however it is damaged, and takes no memory."""
    stored = [member(info.filename, content, method=zipfile.ZIP_STORED) for info, content in members()]
    (tmp_path / FILE).write_bytes(change(wheel(stored)))
    with pytest.raises(LibraryError, match=r"\.whl (is damaged|has no file)"):
        unpack_reader(known(tmp_path, FILE), tmp_path / FILE, tmp_path / "new", quiet)


def test_any_damage_is_a_sentence(tmp_path: Path, quiet: Quiet) -> None:
    """Whatever bytes of a package are changed, no other error comes out, and nothing else than the reader."""
    reader, numbers = known(tmp_path, FILE), random.Random(7)
    good = wheel(member(info.filename, content, method=zipfile.ZIP_STORED) for info, content in members())
    for trial in range(300):
        content = bytearray(good)
        for _ in range(numbers.randint(1, 3)):
            # Most often in the directory, which is at the end.
            place = numbers.randrange(numbers.choice([0, good.index(b"PK\1\2"), len(good) - 22]), len(good) - 4)
            content[place : place + 4] = numbers.choice([numbers.randbytes(4), b"\xff" * 4, bytes(4), b""])
        (tmp_path / FILE).write_bytes(content)
        with suppress(LibraryError):
            unpack_reader(reader, tmp_path / FILE, tmp_path / f"new{trial}", quiet)
        found = files(tmp_path / f"new{trial}")
        assert set(found) <= {*FILES, "LICENSE"}
        assert all(len(found[name]) <= len(FILES[name]) for name in set(found) & set(FILES))


def test_a_bomb_of_another_size_than_it_says(tmp_path: Path, quiet: Quiet) -> None:
    """A file that unpacks to more than the directory says ends at what it says, and is refused."""
    bomb = [member(f"{FOLDER}/encoder.ort", bytes(1 << 26)), *members()[2:]]
    (tmp_path / FILE).write_bytes(patched(wheel(bomb), SIZE, len(FILES["encoder.ort"])))
    with pytest.raises(LibraryError, match=r"\.whl is damaged"):
        unpack_reader(known(tmp_path, FILE), tmp_path / FILE, tmp_path / "new", quiet)
    assert (tmp_path / "new" / "encoder.ort").stat().st_size <= len(FILES["encoder.ort"])


@pytest.mark.parametrize("mark", [(FLAGS, 1), (METHOD, 99)])
def test_what_cannot_be_read(mark: tuple[int, int], tmp_path: Path, quiet: Quiet) -> None:
    """An encrypted file, or one of an unknown method, is refused."""
    (tmp_path / FILE).write_bytes(patched(wheel(), *mark, width=2))
    with pytest.raises(LibraryError, match="is encrypted, or compressed in an unusual way"):
        unpack_reader(known(tmp_path, FILE), tmp_path / FILE, tmp_path / "new", quiet)


def test_too_many_or_too_large(tmp_path: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a package says of itself is limited, also where nothing of it is written."""
    reader = known(tmp_path, FILE)
    (tmp_path / FILE).write_bytes(patched(wheel(), SIZE, (1 << 32) - 2))
    with pytest.raises(LibraryError, match=r"the package unpacks to more than 1\.1 GB, which is the limit"):
        unpack_reader(reader, tmp_path / FILE, tmp_path / "new", quiet)
    monkeypatch.setattr("streamer.models.reader_installation.MOST_ENTRIES", 20)
    (tmp_path / FILE).write_bytes(wheel([*(member(str(number)) for number in range(20)), *members()]))
    with pytest.raises(LibraryError, match="has more than 20 files"):
        unpack_reader(reader, tmp_path / FILE, tmp_path / "newer", quiet)


def test_a_full_disk_while_importing(library: ModelLibrary, tmp_path: Path, quiet: Quiet) -> None:
    """The sentence says which folder is full, and no half of a reader is visible."""
    reader = known(tmp_path, FILE)
    (tmp_path / FILE).write_bytes(wheel())
    with most_bytes(1000), pytest.raises(LibraryError, match="no space is left in"):
        import_reader(library, reader, tmp_path / FILE, quiet)
    assert (library.models(), left(library)) == ({}, [])
