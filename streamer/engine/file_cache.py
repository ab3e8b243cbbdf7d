"""Files with what is computed from a bundle when it is loaded, such as the weights in the order of the processor.

All processes map them, so that they share their memory, and a process that finds them computes nothing. A folder of the
cache is named by all that its files depend on, so files never change. They lie beside the modules or in the user's
cache, as the compiled loops do. Where neither can be written, each process keeps what it computed to itself.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from streamer.base.machine import free_bytes, user_folder
from streamer.engine.array_memory import Arrays, FilePart, mapped_arrays, parts_of

LEAST: Final = 1 << 19
"""Files with fewer bytes than this are not worth a place in the cache."""
MOST_KEPT: Final = 4  # folders of a kind; several versions of the project may use the cache of one user in turn
LEAST_FREE: Final = 128 << 20  # bytes of a disk that stay free for others; the largest file takes 46 MB
_ENGINE: Final = Path(__file__).parent
_CODE: Final = (_ENGINE, _ENGINE.parent / "models")  # what writes files of the cache
_ARRAYS: Final = "arrays.safetensors"
_PARTIAL: Final = "partial-"
_ABANDONED_S: Final = 3600.0  # after this time, nobody writes into a partial folder any more

Part = str | bytes | NDArray[Any]


def fingerprint(*parts: Part) -> str:
    """Return a checksum of these parts, of the code, the libraries and the processor."""
    digest = hashlib.sha256(_surroundings())
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            content = part.encode() if isinstance(part, str) else part
            digest.update(f"{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class CachedArrays:
    """Arrays by name, and their places in a file of the cache. There are none if the arrays are not there."""

    arrays: Arrays
    places: Mapping[str, FilePart] = field(default_factory=dict)


def cached_arrays(kind: str, key: str, size: int, make: Callable[[], Arrays]) -> CachedArrays:
    """Return the arrays of this kind and key, which `make` computes if there are none yet.

    They are mapped from the cache, unless they take only about `size` bytes, or nothing can be written there.
    """

    def write(folder: Path) -> None:
        save_file({name: np.ascontiguousarray(array) for name, array in make().items()}, folder / _ARRAYS)

    folder = cached_folder(kind, key, write) if size >= LEAST else None
    with suppress(
        OSError, ValueError
    ):  # another process may have removed it just now, because it was not used for long
        if folder:
            return CachedArrays(mapped_arrays(folder / _ARRAYS), parts_of(folder / _ARRAYS))
    return CachedArrays(make())


def cached_folder(kind: str, key: str, write: Callable[[Path], None]) -> Path | None:
    """Return the folder of the cache with the files of this kind and key, which `write` writes if there is none yet.

    None if nothing can be written: OSError says so. Several processes may do this at once.
    """
    name = f"{kind}-{key}"
    roots = folders_for_files()
    for root in roots:
        if (root / name).is_dir():
            with suppress(OSError):  # it may belong to another user
                os.utime(root / name)
            return root / name
    for root in roots:
        with suppress(OSError):
            _add(root, name, write)
            _remove_others(root, kind, name)
            return root / name
    return None


def folders_for_files() -> list[Path]:
    """Return the folders of the cache, the first choice first."""
    return [_ENGINE / "__pycache__" / "files", user_folder("XDG_CACHE_HOME", ".cache") / "streamer" / "files"]


def _add(root: Path, name: str, write: Callable[[Path], None]) -> None:
    """Write a folder. It appears as a whole, with files that are on the disk."""
    root.mkdir(parents=True, exist_ok=True)
    if free_bytes(root) < LEAST_FREE:
        raise OSError(f"{root} has no room for more files")
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=root))
    try:
        write(partial)
        for path in partial.iterdir():
            path.chmod(0o644)  # a server may run as another user
            with path.open("rb") as file:
                os.fsync(file.fileno())
        partial.chmod(0o755)
        with suppress(OSError):  # if another process was faster, its files are the same
            partial.rename(root / name)
        if not (root / name).is_dir():
            raise OSError(f"{root / name} cannot be made")
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_others(root: Path, kind: str, name: str) -> None:
    """Remove the folders of this kind that were unused for longest, and what processes left that were killed."""
    others = sorted(set(root.glob(f"{kind}-*")) - {root / name}, key=_used_at)
    abandoned = [path for path in root.glob(f"{_PARTIAL}*") if _used_at(path) < time.time() - _ABANDONED_S]
    for former in [*others[: 1 - MOST_KEPT], *abandoned]:
        shutil.rmtree(former, ignore_errors=True)


def _used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0


@cache
def _surroundings() -> bytes:
    """Return the checksum of what all files depend on besides the bundle."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in _CODE for path in folder.rglob("*.py")):
        digest.update(path.read_bytes())
    for package in ("numpy", "onnxruntime", "onnxruntime-gpu"):
        with suppress(PackageNotFoundError):
            digest.update(f"{package} {version(package)}\n".encode())
    digest.update("\n".join((platform.machine(), *_processor())).encode())
    return digest.digest()


def _processor() -> list[str]:
    """Return what Linux says about the kind of the first processor and the operations that it has."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        return re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", text, re.MULTILINE)
    return []
