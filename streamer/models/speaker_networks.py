"""Finds the networks that tell voices apart, and reads them out of the library that carries them.

They are those of pyannote's speaker-diarization-community-1 (CC BY 4.0). They lie as data in the library of the package
that also carries a reader. It is neither loaded nor run: its table of symbols says where the data are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from streamer.models.library import LibraryError

PACKAGE: Final = "moonshine-voice"
VERSION: Final = "0.0.73"
REQUIREMENT: Final = f"{PACKAGE}=={VERSION}"
LICENCE: Final = "CC BY 4.0"
_MODULE: Final = "moonshine_voice"
_LIBRARY: Final = "libmoonshine.so"
_PREFIX: Final = "_ZN9cppannote19embedded_community1"

# The data that are used, with the SHA-256 of what was tried. Others are refused.
_DATA: Final[Mapping[str, str]] = {
    "segmentation_ort_data": "9715e3996ef181252aa1cc0c9398060f42b2c984c2fb65e3604262555e2efb1a",
    "embedding_ort_data": "6e4af7d49562e6e7042672e444d6394935cb2c23c3a7dd4919da45922b91735b",
}


@dataclass(frozen=True)
class SpeakerNetworks:
    """The networks, as graphs of onnxruntime in its own format.

    `segmentation`: of ten seconds of sound, in which frames each of up to three voices speaks. `embedding`: of features
    of sound, numbers that are similar for the same voice.
    """

    segmentation: bytes
    embedding: bytes


def find_speaker_networks() -> Path | None:
    """Return the library that carries the networks; None if its package is not installed. It is not imported."""
    spec = None
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(_MODULE)
    places = () if spec is None else spec.submodule_search_locations or ()
    paths = (Path(place) / _LIBRARY for place in places)
    return next((path for path in paths if path.is_file()), None)


def read_speaker_networks(library: Path) -> SpeakerNetworks:
    """Read the networks out of this library. LibraryError if they are not those that were tried."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            data = _symbols(content)
    except (OSError, OverflowError, ValueError, struct.error, IndexError) as error:
        raise LibraryError(f"{library} cannot be read: {error}") from error
    for name, expected in _DATA.items():
        found = hashlib.sha256(data[name]).hexdigest() if name in data else ""
        if found != expected:
            lack = f"{name} is another one than expected" if found else f"it has no {name}"
            raise LibraryError(f"{library} has no networks of speakers that are known: {lack} (use {REQUIREMENT})")
    return SpeakerNetworks(*(data[name] for name in _DATA))


# The table of symbols of a library for 64-bit Linux (ELF, little-endian), as far as finding data in it needs.

_DYNAMIC_SYMBOLS: Final = 11
_SYMBOL: Final = struct.Struct("<IBBHQQ")  # name, kind, visibility, section, address, size
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")


class _Section(NamedTuple):
    kind: int
    address: int
    start: int
    size: int
    link: int


def _symbols(content: mmap.mmap) -> dict[str, bytes]:
    """Return the data of the symbols that are wanted, as far as the library has them."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is no library for 64-bit Linux")
    sections = list(_sections(content))
    table = next((section for section in sections if section.kind == _DYNAMIC_SYMBOLS), None)
    if table is None:
        raise ValueError("it has no table of symbols")
    strings = sections[table.link]
    names = content[strings.start : strings.start + strings.size]
    wanted = {names.find(f"{_PREFIX}{len(name)}{name}E".encode() + b"\0"): name for name in _DATA}
    data: dict[str, bytes] = {}
    for name, _, _, number, address, size in _SYMBOL.iter_unpack(content[table.start : table.start + table.size]):
        if name in wanted and 0 < number < len(sections):
            start = sections[number].start + address - sections[number].address
            data[wanted[name]] = content[start : start + size]
    return data


def _sections(content: mmap.mmap) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", content, 0x28)
    length, count = struct.unpack_from("<HH", content, 0x3A)
    for number in range(count):
        _, kind, _, address, offset, size, link, *_ = _SECTION.unpack_from(content, start + number * length)
        yield _Section(kind, address, offset, size, link)
