"""Archives that are well, damaged or malicious."""

from __future__ import annotations

import bz2
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.library import LibraryError
from streamer.library.archive import model_in, unpack
from tests.file_size_limit import most_bytes
from tests.library.archive_shelf import Quiet, packed

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
    monkeypatch.setattr("streamer.library.archive.MOST_BYTES", 1 << 20)
    monkeypatch.setattr("streamer.library.archive.MOST_ENTRIES", 20)
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


def test_which_folder_is_the_model(tmp_path: Path) -> None:
    """There must be one folder with graphs."""
    with pytest.raises(LibraryError, match="there is no model in it"):
        model_in(tmp_path)
    for name in ("64", "128"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").touch()
    with pytest.raises(LibraryError, match=r"several models in it \(128, 64\)"):
        model_in(tmp_path)
