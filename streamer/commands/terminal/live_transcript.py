"""What a dictation shows and writes: the present words, the level of the audio, and a file or subtitles that grow."""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from streamer.audio.recordings import ListedRecording
from streamer.base.subtitles import GrowingSubtitles
from streamer.base.text import printable
from streamer.base.transcript import (
    SUBTITLES,
    TextWriter,
    Transcript,
    event_line,
    stop_event,
    stop_text,
    text_line,
)
from streamer.commands.terminal.status_lines import LiveWords, is_terminal
from streamer.commands.terminal.transcript_files import REFUSE, TranscriptFiles

NAME: Final = "microphone"
# The sign at the beginning of the changing line, and one for terminals without such characters.
SIGNS: Final = {"starting": ("…", "~"), "listening": ("●", "*"), "paused": ("‖", "="), "ending": ("■", ".")}
HEARING: Final = ("starting", "listening")  # the states in which audio is recorded


class LiveTranscript:
    """The transcript of one session, made of its events. Lines and subtitles are written at once, JSON at the end."""

    def __init__(self, formats: str, output: str | None, *, existing: str = REFUSE) -> None:
        """`existing`: what happens to a file that exists already. OutputError if nothing can be written there."""
        self._formats = tuple(dict.fromkeys(formats.split(",")))
        self._recording = ListedRecording.of_name(NAME)
        self._files = TranscriptFiles(self._formats, output, [self._recording], existing=existing, growing=True)
        self._transcript = Transcript(NAME)
        self._subtitles = {name: GrowingSubtitles(name) for name in self._formats if name in SUBTITLES}
        self._partial: Mapping[str, Any] | None = None
        self._heard_ms = 0
        # If the transcript goes to the terminal, finals stay there. Otherwise the changing line is on standard error.
        self._stay = self._formats == ("text",) and output is None and is_terminal(sys.stdout)
        stream = sys.stdout if self._stay else sys.stderr
        self._live = LiveWords(stream) if is_terminal(stream) else None
        # Finals that go into a file would otherwise not be visible.
        in_file = output is not None or _is_file(sys.stdout)
        self._shows_finals = self._stay or in_file
        # A file is read when it is finished. Whatever reads a pipe wants each final at once, as a line.
        self._paragraphs = TextWriter() if in_file else None
        self._plain = not (stream.encoding or "").lower().startswith("utf")

    @property
    def wants_partials(self) -> bool:
        """Whether the session should send partials."""
        return self._live is not None or "jsonl" in self._formats

    @property
    def words(self) -> bool:
        """Whether there are any words so far."""
        return bool(self._transcript.text.strip())

    def begin(self) -> None:
        """Note that the session is open."""
        for format, subtitles in self._subtitles.items():
            self._write(format, subtitles.begin())

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event of the session."""
        self._transcript.add(event)
        self._heard_ms = event.get("audio_ms", self._heard_ms)
        final = event["type"] == "final"
        if event["type"] == "error":
            self.say(f"streamer: {printable(str(event.get('message')))}")
        if event["type"] == "partial":
            self._partial = event
        elif final:
            self._partial = None
        for format in self._formats:
            if format == "jsonl":
                self._write(format, event_line(event))
            elif subtitles := self._subtitles.get(format):
                next_ms = event["start_ms"] if event["type"] == "partial" and event["text"] else None
                self._write(format, subtitles.add(event) if final else subtitles.advance(self._heard_ms, next_ms))
            elif final and format == "text" and not (self._stay and self._live):
                self._write(format, self._paragraphs.add(event) if self._paragraphs else text_line(event))
        if final and self._live and self._shows_finals:
            with self._drawing():
                self._live.final(event)

    def draw(self, state: str, peak: float, lost_s: float) -> None:
        """Draw the changing line: the state, how loud the audio is, and the words that are not final yet."""
        if self._live is None:
            return
        lost = f"lost {lost_s:.1f} s " if lost_s else ""
        meter = level_bar(peak, plain=self._plain) if state in HEARING else ""
        name = "" if state == "listening" else f"{state} "
        start = f"{SIGNS[state][self._plain]} {meter}{name}{lost}"
        with self._drawing():
            if self._partial is None:
                self._live.silence(self._heard_ms, start)
            else:
                self._live.partial(self._partial, start)

    def say(self, message: str) -> None:
        """Print a line on standard error."""
        self._clear()
        with suppress(OSError):  # the terminal may have been closed
            print(message, file=sys.stderr, flush=True)

    def hide(self) -> None:
        """Stop drawing: the terminal is gone."""
        self._live = None

    def end(self) -> None:
        """Write the last part, and finish the files. A session that broke off ends like this, too."""
        transcript = self._transcript
        for format in self._formats:
            if subtitles := self._subtitles.get(format):
                self._write(format, subtitles.end(transcript))
            elif format == "text" and self._paragraphs:
                self._write(format, self._paragraphs.end(stop_text(transcript) if self.words else ""))
            elif format == "text" and self.words and not transcript.complete and not self._stay:
                self._write(format, f"[{stop_text(transcript)}]\n")
            elif format == "jsonl" and self.words and not transcript.complete:
                self._write(format, event_line(stop_event(transcript)))
            elif format in ("json", "html"):
                self._transcript.duration_ms = max(self._transcript.duration_ms, self._heard_ms)
                self._write(format, self._transcript.render(format))
            else:
                self._write(format, "")  # silence leaves a file, too
        if self._files.replaces and not self.words:
            self._files.discard(self._recording)
            self.say("streamer: no words were recognised: the file was not changed.")
        elif self._files.replaces and not self._transcript.complete:
            for path in self._files.break_off(self._recording):
                self.say(f"streamer: the session broke off: its text is in {path}, and the old file was not changed.")
        else:
            self._files.finish(self._recording)
            if not self.words:
                self.say("streamer: no words were recognised.")

    def close(self) -> None:
        """Erase the changing line, and close the files."""
        with suppress(OSError):
            self._clear()
        for path in self._files.close(whole=False):
            self.say(f"streamer: the text so far is in {path}.")

    def _write(self, format: str, text: str) -> None:
        self._clear()
        self._files.write(self._recording, format, text)

    def _clear(self) -> None:
        if self._live:
            with self._drawing():
                self._live.clear()

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Stop drawing if the terminal is gone. But if nothing else gets the finals, that is an error."""
        try:
            yield
        except OSError:
            if self._stay:
                raise
            self.hide()


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


# A level meter: shows how loud the audio is, as a bar of a few characters.

CELLS: Final = 8
QUIETEST_DB: Final = -54.0  # an empty bar; speech into a good microphone is at -30 to -10
CLIPPED: Final = 0.99  # from here on the audio is clipped, and recognition suffers

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def level_bar(peak: float, *, plain: bool = False) -> str:
    """Return a bar for the loudest sample (1 is full scale) in decibels, with `!` at the end if it was too loud."""
    decibels = 20 * math.log10(peak) if peak > 0 else QUIETEST_DB
    share = min(1.0, max(0.0, 1 - decibels / QUIETEST_DB))
    eighths = round(share * CELLS * 8)
    if plain:
        drawn = "#" * round(eighths / 8)
    else:
        drawn = _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{drawn:{CELLS}}{'!' if peak >= CLIPPED else ' '}"
