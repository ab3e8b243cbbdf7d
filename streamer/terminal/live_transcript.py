"""What somebody who speaks into a microphone sees and gets: the words of the moment, and a transcript that grows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from streamer.audio.level_meter import level_bar
from streamer.audio.recording_list import ListedRecording
from streamer.terminal.growing_subtitles import GrowingSubtitles
from streamer.terminal.live_words import LiveWords
from streamer.terminal.status_lines import is_terminal
from streamer.terminal.transcript_files import TranscriptFiles
from streamer.transcript import SUBTITLES, Transcript, event_line, text_line

NAME: Final = "microphone"
# What stands at the beginning of the line that changes, also where there are no such characters.
SIGNS: Final = {"starting": ("…", "~"), "listening": ("●", "*"), "paused": ("‖", "="), "ending": ("■", ".")}
HEARING: Final = ("starting", "listening")  # the states in which what is said is kept


class LiveTranscript:
    """Takes the events of one session; lines and subtitles are written at once, a JSON document at the end."""

    def __init__(self, format: str, output: str | None) -> None:
        """OutputError if it cannot be written there."""
        self._format = format
        self._recording = ListedRecording.named(NAME)
        self._files = TranscriptFiles(format, output, [self._recording])
        self._transcript = Transcript(NAME)
        self._subtitles = GrowingSubtitles(format) if format in SUBTITLES else None
        self._partial: Mapping[str, Any] | None = None
        self._heard_ms = 0
        # With the words on the terminal finals stay there; else the line that changes stands beside them.
        self._stay = format == "text" and output is None and is_terminal(sys.stdout)
        stream = sys.stdout if self._stay else sys.stderr
        self._live = LiveWords(stream) if is_terminal(stream) else None
        self._plain = not (stream.encoding or "").lower().startswith("utf")

    @property
    def wants_partials(self) -> bool:
        """Whether anything is done with partials."""
        return self._live is not None or self._format == "jsonl"

    def begin(self) -> None:
        """The session is open."""
        if self._subtitles:
            self._write(self._subtitles.begin())

    def take(self, event: Mapping[str, Any]) -> None:
        """An event of the session."""
        self._transcript.add(event)
        self._heard_ms = event.get("audio_ms", self._heard_ms)
        if event["type"] == "error":
            self.say(f"streamer: {event.get('message')}")
        if event["type"] == "partial":
            self._partial = event
        elif event["type"] == "final":
            self._partial = None
        if self._format == "jsonl":
            self._write(event_line(event))
        elif self._subtitles:
            self._write(
                self._subtitles.add(event) if event["type"] == "final" else self._subtitles.heard(self._heard_ms)
            )
        elif event["type"] == "final" and self._format == "text":
            if self._stay and self._live:
                self._live.final(event)
            else:
                self._write(text_line(event))

    def draw(self, state: str, peak: float, lost_s: float) -> None:
        """Draws the line that changes: what is going on, how loud it is, and the words that are not final yet."""
        if self._live is None:
            return
        lost = f"lost {lost_s:.1f} s " if lost_s else ""
        meter = level_bar(peak, plain=self._plain) if state in HEARING else ""
        name = "" if state == "listening" else f"{state} "
        start = f"{SIGNS[state][self._plain]} {meter}{name}{lost}"
        if self._partial is None:
            self._live.silence(self._heard_ms, start)
        else:
            self._live.partial(self._partial, start)

    def say(self, message: str) -> None:
        """A line on standard error."""
        self._clear()
        with suppress(OSError):  # the terminal may have been closed
            print(message, file=sys.stderr, flush=True)

    def hide(self) -> None:
        """There is no terminal any more."""
        self._live = None

    def end(self) -> None:
        """Writes what can be written only now; also for a session that broke off."""
        if self._subtitles:
            self._write(self._subtitles.end())
        elif self._format == "json":
            self._transcript.duration_ms = max(self._transcript.duration_ms, self._heard_ms)
            self._write(self._transcript.render("json"))
        else:
            self._write("")  # also silence leaves a file

    def close(self) -> None:
        """Takes away what is left on the terminal, and closes the file."""
        with suppress(OSError):
            self._clear()
        self._files.close()

    def _write(self, text: str) -> None:
        self._clear()
        self._files.write(self._recording, text)

    def _clear(self) -> None:
        if self._live:
            self._live.clear()
