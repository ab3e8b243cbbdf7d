"""A reader of a few bytes: its wheel, and a catalogue that knows it."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path

NAME = "small-reader"
FOLDER = "small_voice/assets/en"
LICENCE = "small_voice-1.0.dist-info/licenses/LICENSE"
FILES = {"encoder.ort": b"encoder" * 700, "decoder.ort": b"decoder" * 900, "tokenizer.bin": bytes(range(256)) * 4}

Member = tuple[zipfile.ZipInfo, bytes]


def member(name: str, content: bytes = b"", *, kind: int = 0, method: int = zipfile.ZIP_DEFLATED) -> Member:
    """A file for a wheel. `kind`: the type of Unix, if it is no file."""
    info = zipfile.ZipInfo(name)
    info.compress_type, info.external_attr = method, (kind or 0o100644) << 16
    return info, content


ABOUT = (
    member("small_voice-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: small-voice\nVersion: 1.0\n"),
    member("small_voice-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nTag: py3-none-any\n"),
)


def members() -> list[Member]:
    """What the wheel of the reader has: a library too, which is not kept."""
    files = [member(f"{FOLDER}/{name}", content) for name, content in FILES.items()]
    return [member("small_voice/library.so", bytes(5000)), *files, member(LICENCE, b"do what you like")]


def wheel(contents: Iterable[Member] | None = None) -> bytes:
    """A wheel with these files, and with what pip wants to see in it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for info, content in (*ABOUT, *(contents or members())):
            made.writestr(info, content)
    return file.getvalue()


def entry(
    address: str, content: bytes, *addresses: str, name: str = NAME, million_weights: int = 1
) -> dict[str, object]:
    """The entry of the catalogue for a reader whose wheel is at this address."""
    files = [
        {"name": file, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for file, content in FILES.items()
    ]
    about = {"package": "small-voice", "version": "1.0", "platform": "any", "folder": FOLDER, "licence_file": LICENCE}
    carries = about | {"address": address, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    licence = {"licence": "MIT", "licence_source": "https://example.org/licence"}
    known = {
        "name": name,
        "maker": "Some People",
        "languages": ["en"],
        "million_weights": million_weights,
        "files": files,
    }
    return known | licence | {"wheel": carries, "installed": FOLDER, "addresses": list(addresses)}


def catalogue(path: Path, *entries: dict[str, object]) -> Path:
    """A catalogue with these readers and no models."""
    path.write_text(json.dumps({"release": "", "languages": {"en": "English"}, "models": [], "readers": entries}))
    return path


def put(folder: Path) -> Path:
    """Write the files of the reader into this folder."""
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder
