"""How many sessions this machine can serve. `serve --sessions auto` and `plan` measure and remember it.

The result is remembered for a model, a machine, what computes and the settings of the measurement. It is measured again
if one of them changes or the file is removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamer import __version__
from streamer.base.json_types import JsonObject
from streamer.base.machine import ROOT, processor_time, user_folder
from streamer.base.package import PACKAGE, shipped
from streamer.base.text import counted
from streamer.bridge.telemetry import logs

if TYPE_CHECKING:
    from streamer.bridge.upstreams.admission import Models
    from streamer.models.readers import ChosenReader

# Speech: silence would be computed faster. In some of its sentences a reader and the recogniser hear other words, which
# costs more than a sentence in which they agree.
SPEECH: Final = "audio_samples/talk.flac"
# Slots during the measurement, unless --slots is given. More would only cost memory: no present machine needs them.
SLOTS: Final = 256
# The slots of the shipped model. With fewer, sessions that have to continue after a failure might find no slot.
USUAL_SLOTS: Final = 64
MOST_REMEMBERED: Final = 32
# What computes, beside this package.
PACKAGES: Final = ("torch", "onnxruntime", "onnxruntime-gpu", "numba", "numpy")


class Capacities:
    """A file with the results for this machine. If it cannot be read, nothing is remembered."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or user_folder("XDG_CACHE_HOME", ".cache") / "streamer" / "capacity.json"

    def get(self, circumstances: Mapping[str, object]) -> int | None:
        """Return the number of sessions under these circumstances, if it is known."""
        sessions = self.recall(circumstances).get("sessions")
        return sessions if isinstance(sessions, int) and sessions > 0 else None

    def put(self, circumstances: Mapping[str, object], sessions: int) -> bool:
        """Remember the number. False if the file cannot be written."""
        return self.remember(circumstances, {"sessions": sessions})

    def recall(self, circumstances: Mapping[str, object]) -> Mapping[str, Any]:
        """Return all that was measured under these circumstances; empty if it is not known."""
        return self._read().get(_key(circumstances), {})

    def remember(self, circumstances: Mapping[str, object], found: Mapping[str, object]) -> bool:
        """Remember what was measured. False if the file cannot be written."""
        known = self._read()
        known.pop(_key(circumstances), None)
        measured = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        known[_key(circumstances)] = {**found, "measured": measured, **circumstances}
        for oldest in list(known)[:-MOST_REMEMBERED]:
            del known[oldest]
        # Written beside the file and then renamed, so a reader gets either the old file or the new one.
        beside = self.path.with_suffix(f".{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
            beside.replace(self.path)
        except OSError:
            return False
        return True

    def _read(self) -> dict[str, JsonObject]:
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        entries = known.items() if isinstance(known, dict) else ()
        return {key: entry for key, entry in entries if isinstance(entry, dict)}


class Finding:
    """Determines the number of sessions for a service, when its recognisers are ready and nobody uses them."""

    def __init__(
        self, circumstances: Mapping[str, object] | None, workers: int = 1, capacities: Capacities | None = None
    ) -> None:
        """Without circumstances, as for Tritons on other machines, nothing is remembered. `workers`: of the bridge."""
        self._circumstances = circumstances
        self._workers = workers
        self._capacities = capacities or Capacities()

    async def __call__(self, models: Models) -> int | None:
        """Return the number of sessions, or None for as many as there are slots, if measuring fails."""
        from streamer.audio.audio_file import read_audio
        from streamer.audio.recordings import AudioError
        from streamer.bridge.server import PortError
        from streamer.bridge.triton.link import LinkError
        from streamer.commands.capacity.live_sessions import NotMeasured, measure_live

        where, known = self._capacities.path, self._circumstances
        if known is not None and (sessions := self._capacities.get(known)) is not None:
            logs.say(f"{counted(sessions, 'session')} at a time, as measured before (see {where})")
            return sessions
        logs.say("measuring how many sessions this machine can serve; this takes a minute or two")
        try:
            found = await measure_live(models, read_audio(shipped(SPEECH)), self._workers)
        except (LinkError, PortError, NotMeasured, AudioError, OSError) as error:
            logs.say(f"the measurement failed ({error}): as many sessions as there are slots", logging.WARNING)
            return None
        more = "; more slots (--slots) may allow more" if found.limited else ""
        logs.say(f"{counted(found.sessions, 'session')} at a time: {found.reason}{more}")
        if known is not None and not self._capacities.put(known, found.sessions):
            logs.say(f"{where} cannot be written: it will be measured again", logging.WARNING)
        return found.sessions


def slots_for(sessions: int, instances: int) -> int:
    """How many slots each instance needs for so many sessions, and one for the probe."""
    return max(USUAL_SLOTS, -(-sessions // instances) + 1)


def circumstances(
    folder: Path,
    instances: int | None,
    slots: int | None,
    parts: Sequence[Path] = (),
    *,
    reader: ChosenReader | None = None,
    workers: int = 1,
    root: Path = ROOT,
) -> JsonObject:
    """Everything on which the capacity of this machine for the model in this folder depends.

    `parts`: the folders of the steps of an ensemble, and those with their weights. `reader`: the one beside the
    model, which computes on the same processors. `workers`: of the bridge. `root`: where /proc and /sys are.
    """
    return {
        "version": f"{__version__} {_digest([PACKAGE], '*.py')}",  # in a clone, the code changes and the number stays
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "model": f"{folder.name} {_digest([folder, *parts])}",
        "instances": instances,
        "slots": slots,
        "workers": workers,
        "reader": None if reader is None else reader.name,
        "machine": {
            "name": platform.node(),
            "processor": _found(r"^model name\s*: (.*)$", root / "proc/cpuinfo") or platform.processor(),
            "processors": processor_time(root),
            "gpus": [
                _found(r"^Model:\s*(.*)$", path)
                for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
            ],
        },
    }


def _digest(folders: Sequence[Path], pattern: str = "*") -> str:
    """Return what changes with the files of these folders, wherever the folders are."""
    stats = [stat for folder in folders for stat in _stats(folder, pattern)]
    return hashlib.sha256(json.dumps(stats).encode()).hexdigest()[:16]


def _stats(folder: Path, pattern: str) -> list[tuple[str, int, int]]:
    files = sorted(path for path in folder.rglob(pattern) if path.is_file() and "__pycache__" not in path.parts)
    return [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _key(circumstances: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(circumstances, sort_keys=True).encode()).hexdigest()[:16]


def _found(pattern: str, path: Path) -> str:
    try:
        match = re.search(pattern, path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return match[1].strip() if match else ""
