"""The journal of unfinished transcripts: what a later command needs to go on where one stopped.

It is beside the transcript while that is unfinished, and has a line for each final as soon as it came. So nothing of it
is lost if the process is killed, and a power cut costs about a second. A line that was not written to its end does not
count. A recording is recognised by its content, so it may have been moved or copied meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Final

from streamer import __version__
from streamer.base.json_types import JsonObject

# A recording is told from others by its length, its beginning and its end.
_COMPARED: Final = 1 << 20
_SYNC_S: Final = 1.0


@dataclass
class Beginning:
    """What is known of a recording whose transcript was not finished."""

    recording: JsonObject  # see `identity_of`
    options: JsonObject  # of the session, and the version of the command
    model: str = ""
    finals: list[JsonObject] = field(default_factory=list)
    audio_ms: int | None = None  # the length of the audio, if all of it was recognised

    @property
    def done(self) -> bool:
        """Whether all of the recording was recognised."""
        return self.audio_ms is not None


class Journal:
    """The journal of one file or of those of one recording. The file is there while there is something in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beginnings: dict[str, Beginning] = {}  # by the name of the recording
        self._file: FileIO | None = None
        self._length = 0  # of the lines that are whole
        self._broken = False  # a line could not be written
        self._synced_at = 0.0
        self._read()

    def begin(self, name: str, recording: JsonObject, options: JsonObject, model: str, *, alone: bool) -> None:
        """Note that a recording is transcribed from its beginning. `alone`: forget all others."""
        if alone:
            self.beginnings.clear()
            self._length = 0
            if self._file is not None:
                self._file.truncate(0)
        about = {"recording": recording, "options": options, "model": model}
        self.beginnings[name] = Beginning(recording, options, model)
        self._append({"name": name, "begin": about})

    def add(self, name: str, final: Mapping[str, Any]) -> None:
        """Add a final."""
        self.beginnings[name].finals.append(dict(final))
        self._append({"name": name, "final": final})

    def finish(self, name: str, audio_ms: int) -> None:
        """Note that a recording was transcribed to its end."""
        self.beginnings[name].audio_ms = audio_ms
        self._append({"name": name, "done": audio_ms})

    def close(self) -> None:
        """Close the file, which stays if there is a final in it."""
        self._sync()
        if self._file is not None:
            self._file.close()
            self._file = None
        if not any(each.finals or each.done for each in self.beginnings.values()):
            self.remove()

    def remove(self) -> None:
        """Remove the file: the transcript is finished."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with suppress(OSError):
            self.path.unlink()

    def _read(self) -> None:
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except OSError:
            return
        for line in lines:
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("the line is not whole")
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return  # what follows cannot be trusted
            self._length += len(line)

    def _take(self, entry: Any) -> None:
        name = entry["name"]
        if "begin" in entry:
            about = entry["begin"]
            self.beginnings[name] = Beginning(dict(about["recording"]), dict(about["options"]), str(about["model"]))
        elif "final" in entry:
            final = dict(entry["final"])
            for number in ("start_ms", "end_ms", "audio_ms", "cut_ms"):
                final[number] = int(final[number])
            self.beginnings[name].finals.append({**final, "type": "final", "text": str(final["text"])})
        else:
            self.beginnings[name].audio_ms = int(entry["done"])

    def _append(self, entry: JsonObject) -> None:
        """Add a line. If the disk is full, the journal ends here: the transcript itself reports that."""
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        if self._broken:
            return
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = FileIO(self.path, "a")
                self._file.truncate(self._length)
            view = memoryview(line)
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError:
            self._broken = True
            if self._file is not None:
                with suppress(OSError):
                    self._file.truncate(self._length)
            return
        self._length += len(line)
        if time.monotonic() - self._synced_at > _SYNC_S:
            self._sync()

    def _sync(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # the folder may be on a device that cannot
                os.fsync(self._file.fileno())
            self._synced_at = time.monotonic()


def identity_of(path: str) -> JsonObject:
    """Return what tells a recording from others. OSError if it cannot be read."""
    digest = hashlib.sha256()
    with FileIO(path) as file:
        size = file.seek(0, os.SEEK_END)
        for begin in dict.fromkeys((0, max(0, size - _COMPARED))):
            file.seek(begin)
            digest.update(file.read(_COMPARED) or b"")
    return {"bytes": size, "sha256": digest.hexdigest()}


def journal_options(options: Mapping[str, object], *, channels: str) -> JsonObject:
    """Return the options that decide about the words of a transcript, as a journal has them."""
    about = {name: value for name, value in options.items() if name != "partials"}
    values: JsonObject = json.loads(json.dumps({**about, "channels apart": channels == "separate"}))
    return {**values, "version": __version__}
