"""Keeps the graphs of readers on disk, so that only the first start has to write them.

A folder is named by what the graphs are made of: the published files, the code that writes them, and the kind of the
processor. It appears complete or not at all, so that any number of processes may start at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from streamer.base.machine import user_folder
from streamer.engine.reader import graphs as graphs_module
from streamer.engine.reader import weights as weights_module
from streamer.engine.reader.graphs import encoder_graph, step_graph
from streamer.engine.reader.weights import DECODER_FILE, ENCODER_FILE, UnknownReader, read_weights

MOST_KEPT: Final = 4  # folders: two readers, each of two versions of the project
_ENCODER, _STEP = _FILES = "encoder.onnx", "step.onnx"


@dataclass(frozen=True)
class ReaderGraphs:
    """The graphs of a reader: paths of files, or their content where nothing can be kept."""

    encoder: Path | bytes
    step: Path | bytes


def reader_graphs(folder: Path, kept: Path | None = None) -> ReaderGraphs:
    """Return the graphs of the reader in this folder, and keep them. Raise UnknownReader if they cannot be written.

    `kept`: where folders of graphs are kept, usually the cache of the user.
    """
    place = (kept or user_folder("XDG_CACHE_HOME", ".cache") / "streamer") / f"reader-{_key(folder)}"
    if not _complete(place):
        weights = read_weights(folder)
        graphs = encoder_graph(weights, signed=multiplies_signs()), step_graph(weights)
        if not _keep(place, graphs):
            return ReaderGraphs(*graphs)
    with suppress(OSError):
        os.utime(place)
    return ReaderGraphs(place / _ENCODER, place / _STEP)


@cache
def multiplies_signs() -> bool:
    """Return whether this processor multiplies bytes with a sign by bytes without one, and adds them up exactly.

    Processors of x86 do so with VNNI. Without, sums overflow, and both should have no sign.
    """
    if platform.machine().lower() not in ("x86_64", "amd64", "i686", "x86"):
        return True
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("flags")[2]
    except OSError:
        return False
    return bool({"avx512_vnni", "avx_vnni"} & set(flags.partition("\n")[0].split()))


def _key(folder: Path) -> str:
    digest = hashlib.sha256(str(multiplies_signs()).encode())
    code = [Path(module.__file__ or "") for module in (graphs_module, weights_module)]
    for path in (*code, folder / ENCODER_FILE, folder / DECODER_FILE):
        try:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise UnknownReader(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:16]


def _complete(place: Path) -> bool:
    return all((place / name).is_file() for name in _FILES)


def _keep(place: Path, graphs: tuple[bytes, bytes]) -> bool:
    """Write the folder beside its place, and move it there. Returns whether it is there."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=place.parent, prefix=".reader-"))
    except OSError:
        return False
    try:
        for name, content in zip(_FILES, graphs, strict=True):
            (work / name).write_bytes(content)
        work.chmod(0o755)  # a temporary folder is for this user alone
        work.rename(place)
    except OSError:  # the disk is full, or another process was faster
        return _complete(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _remove_oldest(place)
    return True


def _remove_oldest(place: Path) -> None:
    others = sorted(set(place.parent.glob("reader-*")) - {place}, key=_used_at)
    for former in others[: 1 - MOST_KEPT]:
        shutil.rmtree(former, ignore_errors=True)


def _used_at(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0
