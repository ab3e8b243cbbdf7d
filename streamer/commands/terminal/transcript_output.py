"""Shows and writes the transcripts of `streamer FILE…`, in the order of the recordings on the command line.

Lines (text, jsonl) are written as the words come, documents (json, srt, vtt) when a recording is complete. Recordings
may be transcribed at the same time. If all go to one output, each has to wait for its turn there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from streamer.audio.recordings import ListedRecording
from streamer.base.text import printable
from streamer.base.transcript import LINE_FORMATS, Transcript, event_line, text_line
from streamer.commands.terminal.progress import (
    ProgressBoard,
    ProgressDisplay,
    Tally,
    TranscriptionDisplay,
    WordsDisplay,
)
from streamer.commands.terminal.status_lines import final_lines, is_terminal
from streamer.commands.terminal.transcript_files import REFUSE, TranscriptFiles
from streamer.commands.terminal.transcript_files import OutputError as OutputError

# Results that wait for their turn are held in memory, so no recording begins more than this number ahead.
MOST_AHEAD: Final = 64


class TranscriptOutput:
    """The outputs of all recordings, with the files and the terminal that they share."""

    def __init__(
        self,
        formats: str,
        output: str | None,
        recordings: Sequence[ListedRecording],
        *,
        existing: str = REFUSE,
        unreadable: int = 0,
    ) -> None:
        """OutputError if nothing can be written there.

        `formats`: one or several, separated by commas. `existing`: what happens to files that exist already.
        `unreadable`: how many further recordings were named that cannot be read.
        """
        self.formats = tuple(dict.fromkeys(formats.split(",")))
        self.files = TranscriptFiles(
            self.formats, output, recordings, existing=existing, several=unreadable + len(recordings) > 1
        )
        self.recordings = [recording for recording in recordings if recording not in self.files.skipped]
        count = len(recordings) + unreadable
        self.tally = Tally(count, failed=unreadable, skipped=len(recordings) - len(self.recordings))
        # Whether lines begin with their time.
        self.times = self.formats == ("text",) and output is None and is_terminal(sys.stdout)
        self.display = _display(self.tally, words=self.times, on_terminal=self.files.on_terminal)
        self._lost = False  # a part of a shared output is missing
        self._turn = 0
        self._waiting: dict[int, RecordingOutput] = {}
        self._closed: set[int] = set()
        self._partial: list[tuple[str, Path]] = []

    @property
    def wants_partials(self) -> bool:
        """Whether the session should send partials."""
        return self.display.shows_words or "jsonl" in self.formats

    def may_begin(self, index: int) -> bool:
        """Return whether this recording is close enough to the one that is being written."""
        return not self.files.shared or index < self._turn + MOST_AHEAD

    def of_recording(self, index: int) -> RecordingOutput:
        """Return the output of one recording, as a context manager that ends with it."""
        output = self._waiting[index] = RecordingOutput(self, index)
        if index == self._turn:
            output.has_turn = True
        return output

    def end_recording(self, index: int) -> None:
        """End the output of this recording, and let the next one write."""
        self._closed.add(index)
        while self._turn in self._closed:
            self._waiting.pop(self._turn, None)
            self._turn += 1
            if output := self._waiting.get(self._turn):
                output.take_turn()

    def close_recording(self, recording: ListedRecording, index: int, *, whole: bool) -> None:
        """Count this recording, and close its files."""
        if whole:
            self.tally.done += 1
        else:
            self._lost = True
            self._partial += [(recording.name, path) for path in self.files.break_off(recording)]
            self.tally.failed += not self.tally.interrupted
        self.display.end(index)

    def say(self, message: str) -> None:
        """Print a line on standard error."""
        self.display.clear()
        with suppress(OSError):
            print(message, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Erase the changing lines, close the files, and print a summary. Raises OutputError like `write`."""
        tally, one = self.tally, self.tally.named == 1
        if not tally.interrupted:
            tally.failed = tally.named - tally.done - tally.skipped  # including those that were never tried
        has_summary = self.display.close()
        # A new file may lack some of several recordings: the user is told, and no earlier text is lost.
        whole = len(self._closed) == len(self.recordings) and not tally.interrupted
        whole = whole and not (self._lost and (one or self.files.replaces))
        shared: list[Path] = []
        try:
            shared = self.files.close(whole=whole)
        finally:
            for name, path in self._partial:
                self.say(f"streamer: {name} was not transcribed to its end: the text so far is in {path}.")
            for path in shared:
                self.say(f"streamer: the text so far is in {path}.")
            if one and tally.skipped:
                self.say("streamer: the transcript exists already: there is nothing to do.")
            if not has_summary and not one and (tally.failed or tally.skipped or tally.interrupted):
                self.say(f"streamer: {tally}.")


class RecordingOutput:
    """The output of one recording."""

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
        """Whether there are any words so far."""
        return bool(self._transcript.text.strip())

    def begin(self, duration_ms: int | None) -> None:
        """Note that the recording begins. `duration_ms`: its length if known."""
        self._begun = True
        self._output.display.begin(self._index, self._recording.name, duration_ms)
        if self.has_turn:
            self._write_heading()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event of the session."""
        output, kind = self._output, event["type"]
        self._transcript.add(event)
        if kind == "error":
            output.say(f"streamer: {self._recording.name}: {printable(str(event.get('message')))}")
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
            output.display.advance(self._index, event["audio_ms"])

    def end(self) -> None:
        """Note that the recording is complete."""
        self._write_documents()
        self._output.files.finish(self._recording)
        self._whole = True

    def break_off(self) -> None:
        """Note that the recording will not be complete. Its finals are written."""
        if self._transcript.segments:
            try:
                self._write_documents()
            except OutputError as error:
                self._output.say(f"streamer: {error}")

    def take_turn(self) -> None:
        """Write to the shared output from now on, first what has waited."""
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
        self._output.close_recording(self._recording, self._index, whole=self._whole)
        self._output.end_recording(self._index)

    def _write_documents(self) -> None:
        # A recording without words leaves a file, too.
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
    """Return the display. `words`: text goes to a terminal. `on_terminal`: output of any format goes there."""
    shows_progress = is_terminal(sys.stderr)
    if shows_progress and tally.named > 1:
        return ProgressBoard(sys.stderr, tally, words=words)
    if words:
        # If words and progress share a terminal, progress is shown below the words.
        return WordsDisplay(sys.stdout, progress=shows_progress)
    return ProgressDisplay(sys.stderr) if shows_progress and not on_terminal else TranscriptionDisplay()
