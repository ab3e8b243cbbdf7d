"""What `streamer FILE…` shows and writes of all its recordings, in the order of the command line.

Lines (text, jsonl) are written as the words come, documents (json, srt, vtt) once a recording is whole. Recordings may
be transcribed at the same time: where all go to one output, each has to wait for its turn there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from streamer.audio.recording_list import ListedRecording
from streamer.terminal.live_words import final_lines
from streamer.terminal.output_file import OutputError as OutputError
from streamer.terminal.progress_board import ProgressBoard
from streamer.terminal.progress_text import Tally
from streamer.terminal.status_lines import is_terminal
from streamer.terminal.transcript_files import REFUSE, TranscriptFiles
from streamer.terminal.transcription_display import ProgressDisplay, TranscriptionDisplay, WordsDisplay
from streamer.transcript import LINE_FORMATS, Transcript, event_line, text_line

# What waits for its turn is held in memory: no recording begins so far ahead of the one that is being written.
MOST_AHEAD: Final = 64


class TranscriptOutput:
    """The outputs of all recordings, and what they share: the files and the terminal."""

    def __init__(
        self,
        formats: str,
        output: str | None,
        recordings: Sequence[ListedRecording],
        *,
        existing: str = REFUSE,
        unreadable: int = 0,
    ) -> None:
        """OutputError if they cannot be written there.

        `formats` may be several with commas between them, `existing` says what becomes of files that are there
        already, and so many more recordings were named that are `unreadable`.
        """
        self.formats = tuple(dict.fromkeys(formats.split(",")))
        self.files = TranscriptFiles(
            self.formats, output, recordings, existing=existing, several=unreadable + len(recordings) > 1
        )
        self.recordings = [recording for recording in recordings if recording not in self.files.skipped]
        named = len(recordings) + unreadable
        self.tally = Tally(named, failed=unreadable, skipped=len(recordings) - len(self.recordings))
        # Whether lines tell their time.
        self.times = self.formats == ("text",) and output is None and is_terminal(sys.stdout)
        self.display = _display(self.tally, words=self.times, on_terminal=self.files.on_terminal)
        self._lost = False  # a part of what the recordings share is missing
        self._turn = 0
        self._waiting: dict[int, RecordingOutput] = {}
        self._closed: set[int] = set()
        self._partial: list[tuple[str, Path]] = []

    @property
    def wants_partials(self) -> bool:
        """Whether anything is done with partials."""
        return self.display.shows_words or "jsonl" in self.formats

    def may_begin(self, index: int) -> bool:
        """Whether this recording would not be too far ahead of the one that is being written."""
        return not self.files.shared or index < self._turn + MOST_AHEAD

    def of_recording(self, index: int) -> RecordingOutput:
        """The output of one recording; to be entered, and left once there is no more for it."""
        output = self._waiting[index] = RecordingOutput(self, index)
        if index == self._turn:
            output.has_turn = True
        return output

    def end_recording(self, index: int) -> None:
        """Nothing more comes of this recording: the next one has its turn."""
        self._closed.add(index)
        while self._turn in self._closed:
            self._waiting.pop(self._turn, None)
            self._turn += 1
            if output := self._waiting.get(self._turn):
                output.take_turn()

    def ended(self, recording: ListedRecording, index: int, *, whole: bool) -> None:
        """Nothing more comes of this recording."""
        if whole:
            self.tally.done += 1
        else:
            self._lost = True
            self._partial += [(recording.name, path) for path in self.files.break_off(recording)]
            self.tally.failed += not self.tally.interrupted
        self.display.end(index)

    def say(self, message: str) -> None:
        """A line on standard error."""
        self.display.clear()
        with suppress(OSError):
            print(message, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Takes away what is left on the terminal, closes files, and says what it came to. OutputError as `write`."""
        tally, one = self.tally, self.tally.named == 1
        if not tally.interrupted:
            tally.failed = tally.named - tally.done - tally.skipped  # also what was not even tried
        told = self.display.close()
        # Of several recordings in a new file some may be missing: that is told, and nothing is lost by it.
        whole = len(self._closed) == len(self.recordings) and not tally.interrupted
        whole = whole and not (self._lost and (one or self.files.replaces))
        shared: list[Path] = []
        try:
            shared = self.files.close(whole=whole)
        finally:
            for name, path in self._partial:
                self.say(f"streamer: {name} was not transcribed to its end: the part that was is in {path}.")
            for path in shared:
                self.say(f"streamer: what was transcribed so far is in {path}.")
            if one and tally.skipped:
                self.say("streamer: the transcript exists already: there is nothing to do.")
            if not told and not one and (tally.failed or tally.skipped or tally.interrupted):
                self.say(f"streamer: {tally}.")


class RecordingOutput:
    """What is shown and written of one recording."""

    def __init__(self, output: TranscriptOutput, index: int) -> None:
        self.has_turn = False
        self._whole = False
        self._output = output
        self._index = index
        self._recording = output.recordings[index]
        self._transcript = Transcript(self._recording.name)
        self._heading = output.times and len(output.recordings) > 1
        self._pending: list[tuple[str, str]] = []
        self._begun = False

    @property
    def words(self) -> bool:
        """Whether there are any so far."""
        return bool(self._transcript.text.strip())

    def begin(self, duration_ms: int | None) -> None:
        """The recording begins; its length if it is known."""
        self._begun = True
        self._output.display.begin(self._index, self._recording.name, duration_ms)
        if self.has_turn:
            self._write_heading()

    def take(self, event: Mapping[str, Any]) -> None:
        """An event of the session."""
        output, kind = self._output, event["type"]
        self._transcript.add(event)
        if kind == "error":
            output.say(f"streamer: {self._recording.name}: {event.get('message')}")
        for format in output.formats:
            if format == "jsonl":
                self._write(format, event_line(event))
            elif kind == "final" and output.times:
                self._write(format, final_lines(event, sys.stdout))
            elif kind == "final" and format == "text":
                self._write(format, text_line(event))
        if kind == "partial" and (self.has_turn or output.display.shows_all):
            output.display.words(self._index, event)
        if "audio_ms" in event:
            output.display.heard(self._index, event["audio_ms"])

    def end(self) -> None:
        """The recording is whole."""
        self._write_documents()
        self._output.files.finish(self._recording)
        self._whole = True

    def break_off(self) -> None:
        """The recording is not whole, and will not be: what is final is not lost."""
        if self._transcript.segments:
            try:
                self._write_documents()
            except OutputError as error:
                self._output.say(f"streamer: {error}")

    def take_turn(self) -> None:
        """This recording is the next in the output that all share."""
        self.has_turn = True
        if self._begun:
            self._write_heading()
        pending, self._pending = self._pending, []
        for format, text in pending:
            self._write(format, text)

    def __enter__(self) -> RecordingOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.ended(self._recording, self._index, whole=self._whole)
        self._output.end_recording(self._index)

    def _write_documents(self) -> None:
        # Also a recording without a word leaves a file.
        for format in self._output.formats:
            self._write(format, "" if format in LINE_FORMATS else self._transcript.render(format))

    def _write(self, format: str, text: str) -> None:
        if self._output.files.shared and not self.has_turn:
            self._pending.append((format, text))
            return
        if self._output.files.on_terminal:
            self._output.display.clear()
        self._output.files.write(self._recording, format, text)

    def _write_heading(self) -> None:
        if self._heading:
            self._heading = False
            self._output.say(self._recording.name)


def _display(tally: Tally, *, words: bool, on_terminal: bool) -> TranscriptionDisplay:
    """What suits so many recordings. `words`: whether lines of text go to a terminal, `on_terminal`: whether any do."""
    shows_progress = is_terminal(sys.stderr)
    if shows_progress and tally.named > 1:
        return ProgressBoard(sys.stderr, tally, words=words)
    if words:
        # On one terminal with the lines, the progress stands below the words.
        return WordsDisplay(sys.stdout, progress=shows_progress)
    return ProgressDisplay(sys.stderr) if shows_progress and not on_terminal else TranscriptionDisplay()
