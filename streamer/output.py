"""Where transcripts go: standard output, one file, or a folder with a file for each recording.

Lines (text, jsonl) are written as the words come, documents (json, srt, vtt) once a recording is whole.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.terminal import LiveText, Progress, is_terminal
from streamer.transcript import LINE_FORMATS, SUBTITLES, Transcript, event_line, label, text_line

ENDINGS: Final = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}
_LONG_MS: Final = 60_000


class OutputError(Exception):
    """What is wrong with the place for the transcripts, in one sentence."""


class Destination:
    """The place for the text of all recordings; nothing is created or overwritten before there is some."""

    def __init__(self, format: str, output: str | None, recordings: Sequence[str]) -> None:
        self._paths: dict[str, Path | None] = dict.fromkeys(recordings)
        self._open: dict[Path, TextIO] = {}
        if output is None:
            return
        target = Path(output)
        if target.is_dir():
            paths = [target / f"{_stem(name)}{ENDINGS[format]}" for name in recordings]
            twice = [path for path, count in Counter(paths).items() if count > 1]
            if twice:
                raise OutputError(f"two of the recordings would both become {twice[0]}; do them one by one.")
            self._paths = dict(zip(recordings, paths, strict=True))
        elif output.endswith("/"):
            raise OutputError(f"--output {output}: there is no such folder.")
        elif not target.parent.is_dir():
            raise OutputError(f"--output {output}: there is no folder {target.parent}.")
        elif format in SUBTITLES and len(recordings) > 1:
            raise OutputError(f"{format} holds one recording: give --output a folder for several.")
        else:
            self._paths = dict.fromkeys(recordings, target)
        for path in self._paths.values():
            if path and path.exists() and any(Path(name).exists() and path.samefile(name) for name in recordings):
                raise OutputError(f"--output {output}: that would overwrite the recording {path}.")

    def write(self, recording: str, text: str) -> None:
        """Writes what belongs to this recording, at once."""
        path = self._paths[recording]
        if path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        try:
            if path not in self._open:
                self._open[path] = path.open("w", encoding="utf-8", errors="backslashreplace")
            self._open[path].write(text)
            self._open[path].flush()
        except OSError as error:
            self.close()
            raise OutputError(f"{path} cannot be written: {error.strerror}.") from error

    def close(self) -> None:
        """Closes all files."""
        for stream in self._open.values():
            with suppress(OSError):  # the disk is full: write() has said so
                stream.close()
        self._open.clear()


class Output:
    """What a command shows and writes while it transcribes one recording after the other."""

    def __init__(self, format: str, output: str | None, recordings: Sequence[str]) -> None:
        self._format = format
        self._destination = Destination(format, output, recordings)
        self._several = len(recordings) > 1
        self._transcript = Transcript("")
        self._duration_ms: int | None = None
        shown = output is None and is_terminal(sys.stdout)
        on_terminal = is_terminal(sys.stderr)
        self._live = LiveText(sys.stdout) if shown and format == "text" else None
        # Beside lines on the same terminal the progress stands in front of the words.
        self._progress = Progress(sys.stderr) if on_terminal and not shown else None
        self._share = on_terminal and self._live is not None

    @property
    def wants_partials(self) -> bool:
        """Whether anything is done with partials."""
        return self._live is not None or self._format == "jsonl"

    def begin(self, recording: str, duration_ms: int | None) -> None:
        """The next recording; its length if it is known."""
        self._transcript = Transcript(recording)
        self._duration_ms = duration_ms
        if self._progress:
            self._progress.restart()
        if self._live and self._several:
            self.say(recording)

    def take(self, event: dict[str, Any]) -> None:
        """An event of the session."""
        name = self._transcript.file
        self._transcript.add(event)
        if event["type"] == "error":
            self.say(f"streamer: {name}: {event.get('message')}")
        if self._format == "jsonl":
            self._destination.write(name, event_line(event))
        elif event["type"] == "final" and self._live:
            self._live.final(label(event) + event["text"], event["start_ms"])
        elif event["type"] == "final" and self._format == "text":
            self._destination.write(name, text_line(event))
        elif event["type"] == "partial" and self._live:
            progress = self._share_done(event["audio_ms"])
            channel = label(event)
            self._live.partial(channel + event["text"], len(channel) + event["stable"], event["start_ms"], progress)
        if self._progress and "audio_ms" in event:
            self._progress.update(name, event["audio_ms"], self._duration_ms)

    def end(self) -> None:
        """The recording is whole."""
        self._clear()
        if self._format in LINE_FORMATS:
            # Also a recording without a word leaves a file.
            self._destination.write(self._transcript.file, "")
        else:
            self._destination.write(self._transcript.file, self._transcript.render(self._format))

    def say(self, message: str) -> None:
        """A line on standard error."""
        self._clear()
        print(message, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Takes away what is left on the terminal, and closes files."""
        self._clear()
        self._destination.close()

    def _clear(self) -> None:
        if self._progress:
            self._progress.clear()
        if self._live:
            self._live.clear()

    def _share_done(self, heard_ms: int) -> str:
        if not self._share or self._duration_ms is None or self._duration_ms < _LONG_MS:
            return ""
        return f"{min(100, heard_ms * 100 // self._duration_ms):3} % "


def _stem(recording: str) -> str:
    return "stdin" if recording == "-" else Path(recording).stem
