"""Compiles loops over numbers with numba, and keeps what it compiled on disk.

numba looks only at the file of a loop to see whether what it kept still fits. But loops call loops of other modules. So
what belongs together lies in a folder that is named by the text of all modules with loops.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numba

from streamer.base.machine import user_folder

_Loop = TypeVar("_Loop", bound=Callable[..., Any])
_ENGINE = Path(__file__).parent
MOST_KEPT = 4  # folders; several versions of the project may use the cache of one user in turn


def folder_for_loops(engine: Path) -> Path | None:
    """Where the loops of the modules in this folder are kept: beside them, or in the user's cache.

    None if neither can be written. What is beside them and cannot be written, as in an image, is copied.
    """
    text = b"".join(path.read_bytes() for path in sorted(engine.rglob("*_loops.py")))
    name = f"loops-{hashlib.sha256(text).hexdigest()[:16]}"
    beside = engine / "__pycache__" / name
    if _can_be_written(beside):
        return beside
    users = user_folder("XDG_CACHE_HOME", ".cache") / "streamer" / name
    if beside.is_dir() and not users.exists():
        with suppress(OSError):  # another process copies it, or it cannot be written
            shutil.copytree(beside, users)
    return users if _can_be_written(users) else None


def _can_be_written(folder: Path) -> bool:
    """Make this folder and note that it is used. Of those of other loops beside it, the last used ones stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return False
    if not os.access(folder, os.W_OK):
        return False
    others = sorted(set(folder.parent.glob("loops-*")) - {folder}, key=_used_at)
    for former in others[: 1 - MOST_KEPT]:
        shutil.rmtree(former, ignore_errors=True)
    return True


def _used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0


def _kept() -> bool:
    """Whether compiled loops are kept. NUMBA_CACHE_DIR says where, if it is set."""
    config: Any = numba.config
    config.CACHE_DIR = config.CACHE_DIR or str(folder_for_loops(_ENGINE) or "")
    return bool(config.CACHE_DIR)


_compile: Any = partial(numba.njit, cache=_kept(), nogil=True, error_model="numpy")


def compiled_loop(function: _Loop) -> _Loop:
    """Compile this function where it is called first. It may be called from Python and from other such functions."""
    compiled: _Loop = _compile()(function)
    return compiled


def inlined_loop(function: _Loop) -> _Loop:
    """The same for small functions that are called for each hypothesis. They become part of those that call them."""
    compiled: _Loop = _compile(forceinline=True)(function)
    return compiled
