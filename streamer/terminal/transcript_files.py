"""Where transcripts are written: to standard output, to one file, or to a file for each recording in a folder."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final, TextIO

from streamer.audio.recording_list import ListedRecording
from streamer.terminal.status_lines import is_terminal
from streamer.transcript import SUBTITLES

ENDINGS: Final = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}


class OutputError(Exception):
    """Transcripts cannot be written there; the message is a sentence for the user."""


class TranscriptFiles:
    """The files of all recordings. Nothing is created or overwritten before there is some text."""

    def __init__(self, format: str, output: str | None, recordings: Sequence[ListedRecording]) -> None:
        self.shared = True  # whether all recordings go to one output
        self.on_terminal = output is None and is_terminal(sys.stdout)
        self._paths: Mapping[ListedRecording, Path | None] = dict.fromkeys(recordings)
        self._open: dict[Path, TextIO] = {}
        if output is None:
            return
        target = Path(output)
        if target.is_dir():
            self.shared = False
            self._paths = _in_folder(target, recordings, ENDINGS[format])
        elif output.endswith("/"):
            raise OutputError(f"--output {output}: there is no such folder.")
        elif not target.parent.is_dir():
            raise OutputError(f"--output {output}: there is no folder {target.parent}.")
        elif format in SUBTITLES and len(recordings) > 1:
            raise OutputError(f"{format} holds one recording: give --output a folder for several.")
        else:
            self._paths = dict.fromkeys(recordings, target)
        sources = {_identity(Path(recording.name)) for recording in recordings} - {None}
        for path in self._paths.values():
            if path and _identity(path) in sources:
                raise OutputError(f"--output {output}: that would overwrite the recording {path}.")

    def write(self, recording: ListedRecording, text: str) -> None:
        """Writes what belongs to this recording, at once."""
        path = self._paths[recording]
        if path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        try:
            if path not in self._open:
                if not self.shared:
                    path.parent.mkdir(parents=True, exist_ok=True)
                self._open[path] = path.open("w", encoding="utf-8", errors="backslashreplace")
            self._open[path].write(text)
            self._open[path].flush()
        except OSError as error:
            self.close()
            raise OutputError(f"{path} cannot be written: {error.strerror}.") from error

    def release(self, recording: ListedRecording) -> None:
        """Nothing more comes for this recording: thousands of them must not keep thousands of files open."""
        path = self._paths[recording]
        if path and not self.shared and (stream := self._open.pop(path, None)):
            with suppress(OSError):  # the disk is full: write() has said so
                stream.close()

    def close(self) -> None:
        """Closes all files."""
        for stream in self._open.values():
            with suppress(OSError):
                stream.close()
        self._open.clear()


def _in_folder(folder: Path, recordings: Sequence[ListedRecording], ending: str) -> dict[ListedRecording, Path]:
    """A file for each, in the structure of the folders that they come from."""
    named = {recording: recording.path.with_name(f"{_stem(recording)}{ending}") for recording in recordings}
    # talk.wav and talk.mp3 in one folder are not the same.
    twice = {path for path, count in Counter(named.values()).items() if count > 1}
    for recording, path in named.items():
        if path in twice:
            named[recording] = recording.path.with_name(f"{recording.path.name}{ending}")
    counts = Counter(named[recording] for recording in recordings)
    if clashing := next((path for path, count in counts.items() if count > 1), None):
        names = " and ".join(recording.name for recording in recordings if named[recording] == clashing)
        raise OutputError(
            f"two recordings would both be written to {folder / clashing}: {names}. Transcribe them one at a time."
        )
    return {recording: folder / path for recording, path in named.items()}


def _stem(recording: ListedRecording) -> str:
    return PurePath(recording.path.name).stem


def _identity(path: Path) -> tuple[int, int] | None:
    """What file a path leads to, if there is one."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
