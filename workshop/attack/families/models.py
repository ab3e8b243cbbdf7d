"""Attacks on whoever fetches or imports a model: damaged and lying folders, and archives that want the whole disk.

No service takes these. They are read as `models get` and `models import` read them, in the process of the attack.
"""

from __future__ import annotations

import asyncio
import bz2
import io
import random
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from streamer.models.installation import unpack
from streamer.models.library import LibraryError
from streamer.models.model_folder import ModelFolderError, read_model_folder
from workshop.attack.attack import Attack, PromiseBroken, Strike, Target, mutated
from workshop.graphs.exact_icefall import make_ctc_folder, make_transducer_folder, make_zipformer_folder
from workshop.graphs.exact_nemo import make_nemotron_folder, make_t_one_folder

FAMILY: Final = "models"
_MOST: Final = 1 << 20  # bytes that may be unpacked from an archive that is smaller than this
_HOLE: Final = 1 << 26
_AT_A_TIME: Final = 8
_MAKERS: Final = (
    make_ctc_folder,
    make_transducer_folder,
    make_zipformer_folder,
    make_nemotron_folder,
    make_t_one_folder,
)
# What a number may be in a file that its reader trusts too much.
_NUMBERS: Final = (b"2147483648", b"4611686018427387904", b"-1", b"9" * 5000, b"0", b"1e9", b"\xd9\xa3")
_PLACES: Final = (b"/etc/passwd", b"../../secret", b"\x1b]52;c;QQ==\x07", b"tokens.txt")

Files = Mapping[str, bytes]


@cache
def _folders() -> list[Files]:
    """Return the files of a folder of each family."""
    folders: list[Files] = []
    for make in _MAKERS:
        with tempfile.TemporaryDirectory() as folder:
            folders.append({path.name: path.read_bytes() for path in sorted(make(Path(folder)).iterdir())})
    return folders


def wild_folder(rng: random.Random) -> Files:
    """Return the files of a folder, one of them with bytes or numbers changed."""
    files = dict(rng.choice(_folders()))
    name = rng.choice(list(files))
    content = files[name]
    if rng.random() < 0.5:
        return files | {name: mutated(content, rng)}
    digits = [place for place, byte in enumerate(content) if byte in b"0123456789"]
    place = rng.choice(digits)
    return files | {name: content[:place] + rng.choice(_NUMBERS + _PLACES) + content[place + 1 :]}


def wild_archive(rng: random.Random) -> bytes:
    """Return an archive with bytes changed, or with a file that is far larger than what it takes in the archive."""
    how = rng.random()
    if how < 0.2:
        content = old_sparse(_HOLE, parts=rng.choice((0, 1, 2000)))
    elif how < 0.4:
        content = new_sparse(_HOLE, rng.choice(("0.0", "0.1", "1.0")))
    else:
        files = rng.choice(_folders()).items()
        content = tar({rng.choice(("", "a/", "a/", "../", "a/" * 300)) + name: part for name, part in files})
        content = mutated(content, rng) if rng.random() < 0.8 else content
    return mutated(bz2.compress(content), rng) if rng.random() < 0.1 else bz2.compress(content)


def tar(files: Files) -> bytes:
    """Return an archive with these files."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def old_sparse(size: int, *, parts: int = 0) -> bytes:
    """Return an archive with a sparse file in the format of GNU: this size, and one byte at its beginning.

    `parts`: how many headers with 21 more parts each follow.
    """
    info = tarfile.TarInfo("tokens.txt")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (0, 1)
    header[482] = int(parts > 0)
    header[483:495] = size.to_bytes(12, "big")
    header[483] = 0x80  # the size follows as bytes, and not as octal digits
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    part = b"%011o\0%011o\0" % (1, 1) * 21
    more = b"".join(part + bytes([number < parts - 1]) + bytes(7) for number in range(parts))
    return bytes(header) + more + b"x" * 512 + bytes(1024)


def new_sparse(size: int, version: str) -> bytes:
    """Return such an archive in one of the formats that POSIX archives have."""
    headers = {
        "0.0": {"GNU.sparse.size": str(size), "GNU.sparse.numblocks": "1"},
        "0.1": {"GNU.sparse.size": str(size), "GNU.sparse.map": "0,1"},
        "1.0": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(size)},
    }
    info = tarfile.TarInfo("tokens.txt")
    content = (b"1\n0\n1\n".ljust(512, b"\0") if version == "1.0" else b"") + b"x"
    info.size, info.pax_headers = len(content), headers[version]
    return info.tobuf(tarfile.PAX_FORMAT) + content.ljust(1024, b"\0") + bytes(1024)


def read_wild_folder(folder: Path, rng: random.Random) -> str:
    """Read a wild folder. PromiseBroken if this ends with anything but a model, or a sentence that can be printed."""
    for name, content in wild_folder(rng).items():
        (folder / name).write_bytes(content)
    try:
        read_model_folder(folder)
    except ModelFolderError as refusal:
        return _said(str(refusal))
    return "read"


def unpack_wild_archive(folder: Path, rng: random.Random) -> str:
    """Unpack a wild archive. PromiseBroken if much more is written than was packed, or anything outside."""
    (folder / "archive").write_bytes(wild_archive(rng))
    answer = "unpacked"
    try:
        unpack(folder / "archive", folder / "new", _Silent())
    except LibraryError as refusal:
        answer = _said(str(refusal))
    written = sum(path.stat().st_size for path in (folder / "new").rglob("*"))
    if written > _MOST:
        raise PromiseBroken(f"a small archive became {written} bytes")
    if {path.name for path in folder.iterdir()} != {"archive", "new"}:
        raise PromiseBroken("an archive was unpacked outside of its folder")
    return answer


class _Silent:
    """An observer that shows nothing."""

    def progress(self, what: str, done: int, whole: int | None) -> None:
        """Show nothing."""

    def say(self, sentence: str) -> None:
        """Print nothing."""


def _said(sentence: str) -> str:
    if not sentence.isprintable() or not 2 < len(sentence.split()) < 200:
        raise PromiseBroken(f"a model was refused with {sentence[:300]!r}")
    return "refused"


async def wild_folders(target: Target, rng: random.Random) -> Strike:
    """Read folders with damaged bytes, wild numbers and paths to files of others."""
    return await _strike(read_wild_folder, rng)


async def wild_archives(target: Target, rng: random.Random) -> Strike:
    """Unpack archives with damaged bytes, sparse files, deep folders and paths to the outside."""
    return await _strike(unpack_wild_archive, rng)


async def _strike(act: Callable[[Path, random.Random], str], rng: random.Random) -> Strike:
    def once() -> str:
        with tempfile.TemporaryDirectory(prefix="attack-") as folder:
            return act(Path(folder), rng)

    strike = Strike()
    for _ in range(_AT_A_TIME):
        strike.add(await asyncio.to_thread(once))  # the other attacks go on meanwhile
    return strike


ATTACKS: Final = (Attack("wild folders", FAMILY, wild_folders), Attack("wild archives", FAMILY, wild_archives))
