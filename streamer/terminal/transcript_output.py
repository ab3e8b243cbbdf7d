"""What `streamer FILE…` shows and writes of all its recordings, in the order of the command line.

Lines (text, jsonl) are written as the words come, documents (json, srt, vtt) once a recording is whole. Recordings may
be transcribed at the same time: where all go to one output, each has to wait for its turn there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from streamer.audio.recording_list import ListedRecording
from streamer.terminal.live_words import final_lines
from streamer.terminal.progress_board import ProgressBoard
from streamer.terminal.status_lines import is_terminal
from streamer.terminal.transcript_files import OutputError as OutputError
from streamer.terminal.transcript_files import TranscriptFiles
from streamer.terminal.transcription_display import ProgressDisplay, TranscriptionDisplay, WordsDisplay
from streamer.transcript import LINE_FORMATS, Transcript, event_line, text_line

# What waits for its turn is held in memory: no recording begins so far ahead of the one that is being written.
MOST_AHEAD: Final = 64


class TranscriptOutput:
    """The outputs of all recordings, and what they share: the files and the terminal."""

    def __init__(self, format: str, output: str | None, recordings: Sequence[ListedRecording]) -> None:
        """OutputError if they cannot be written there."""
        self.format = format
        self.recordings = recordings
        self.files = TranscriptFiles(format, output, recordings)
        self.times = format == "text" and output is None and is_terminal(sys.stdout)  # whether lines tell their time
        self.display = _display(len(recordings), words=self.times, on_terminal=self.files.on_terminal)
        self._turn = 0
        self._waiting: dict[int, RecordingOutput] = {}
        self._closed: set[int] = set()

    @property
    def wants_partials(self) -> bool:
        """Whether anything is done with partials."""
        return self.display.shows_words or self.format == "jsonl"

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

    def say(self, message: str) -> None:
        """A line on standard error."""
        self.display.clear()
        print(message, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Takes away what is left on the terminal, and closes files."""
        self.display.close()
        self.files.close()


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
        self._pending: list[str] = []
        self._begun = False

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
        if output.format == "jsonl":
            self._write(event_line(event))
        elif kind == "final" and output.times:
            self._write(final_lines(event, sys.stdout))
        elif kind == "final" and output.format == "text":
            self._write(text_line(event))
        if kind == "partial" and (self.has_turn or output.display.shows_all):
            output.display.words(self._index, event)
        if "audio_ms" in event:
            output.display.heard(self._index, event["audio_ms"])

    def end(self) -> None:
        """The recording is whole."""
        format = self._output.format
        self._whole = True
        # Also a recording without a word leaves a file.
        self._write("" if format in LINE_FORMATS else self._transcript.render(format))

    def break_off(self) -> None:
        """The recording is not whole, and will not be: what is final is not lost."""
        if self._transcript.segments:
            self.end()
            self._whole = False

    def take_turn(self) -> None:
        """This recording is the next in the output that all share."""
        self.has_turn = True
        if self._begun:
            self._write_heading()
        pending, self._pending = self._pending, []
        for text in pending:
            self._write(text)

    def __enter__(self) -> RecordingOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:  # what is interrupted has neither succeeded nor failed
            self._output.display.end(self._index, failed=not self._whole)
        self._output.files.release(self._recording)
        self._output.end_recording(self._index)

    def _write(self, text: str) -> None:
        if self._output.files.shared and not self.has_turn:
            self._pending.append(text)
            return
        if self._output.files.on_terminal:
            self._output.display.clear()
        self._output.files.write(self._recording, text)

    def _write_heading(self) -> None:
        if self._heading:
            self._heading = False
            self._output.say(self._recording.name)


def _display(count: int, *, words: bool, on_terminal: bool) -> TranscriptionDisplay:
    """What suits so many recordings. `words`: whether lines of text go to a terminal, `on_terminal`: whether any do."""
    shows_progress = is_terminal(sys.stderr)
    if shows_progress and count > 1:
        return ProgressBoard(sys.stderr, count, words=words)
    if words:
        # On one terminal with the lines, the progress stands in front of the words.
        return WordsDisplay(sys.stdout, share=shows_progress)
    return ProgressDisplay(sys.stderr) if shows_progress and not on_terminal else TranscriptionDisplay()
