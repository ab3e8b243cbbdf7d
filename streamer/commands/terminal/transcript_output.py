"""Shows and writes the transcripts of `streamer FILE…`, in the order of the recordings on the command line.

Text and jsonl are written as the words come, documents (json, srt, vtt, html) when a recording is complete. Recordings
may be transcribed at the same time. If all go to one output, each has to wait for its turn there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from streamer.audio.recordings import ListedRecording
from streamer.base.json_types import JsonObject
from streamer.base.reading_page import Sound
from streamer.base.text import printable
from streamer.base.transcript import (
    TextWriter,
    Transcript,
    TranscriptSegment,
    event_line,
    is_abrupt,
    render_page,
    stop_event,
    stop_text,
)
from streamer.commands.terminal.journal import Beginning, Journal
from streamer.commands.terminal.progress import (
    ProgressBoard,
    ProgressDisplay,
    Tally,
    TranscriptionDisplay,
    WordsDisplay,
)
from streamer.commands.terminal.status_lines import final_lines, is_terminal
from streamer.commands.terminal.transcript_files import REFUSE, TranscriptFiles, formats_for
from streamer.commands.terminal.transcript_files import OutputError as OutputError

# Results that wait for their turn are held in memory, so no recording begins more than this number ahead.
MOST_AHEAD: Final = 64
_HEADING: Final = "the heading of the recording"  # stands for it until the recording has its turn


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
        times: bool = False,
        speakers: bool = False,
        headings: bool = True,
    ) -> None:
        """OutputError if nothing can be written there.

        `formats`: one or several, separated by commas. `existing`: what happens to files that exist already.
        `unreadable`: how many further recordings were named that cannot be read. `times`: whether paragraphs begin
        with their times. `speakers`: whether speakers are told apart, so that text is written at the end. `headings`:
        whether each of several recordings in one text has a heading.
        """
        self.formats = tuple(dict.fromkeys(formats.split(",")))
        self.files = TranscriptFiles(
            self.formats, output, recordings, existing=existing, several=unreadable + len(recordings) > 1
        )
        self.recordings = [recording for recording in recordings if recording not in self.files.skipped]
        count = len(recordings) + unreadable
        self.tally = Tally(count, failed=unreadable, skipped=len(recordings) - len(self.recordings))
        # Whether lines on a terminal get each final at once.
        self.live = self.formats == ("text",) and output is None and is_terminal(sys.stdout)
        self.times, self.speakers = times, speakers
        self._headings = headings and count > 1 and self.files.shared and not self.live
        self._headed = False
        self.display = _display(self.tally, words=self.live, on_terminal=self.files.on_terminal)
        self._lost = False  # a part of a shared output is missing
        self._turn = 0
        self._waiting: dict[int, RecordingOutput] = {}
        self._closed: set[int] = set()
        self._partial: list[tuple[str, Path]] = []
        self._continues = False  # whether another command can go on where one was broken off

    @property
    def wants_partials(self) -> bool:
        """Whether the session should send partials."""
        return self.display.shows_words or "jsonl" in self.formats

    def heading(self, name: str) -> str:
        """Return what stands before the text of one of several recordings."""
        if not self._headings:
            return ""
        before, self._headed = "\n" if self._headed else "", True
        return f"{before}# {printable(name)}\n\n"

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
        """Count this recording, and close its files if it is not whole."""
        if whole:
            self.tally.done += 1
        else:
            self._lost = True
            self._partial += [(recording.name, path) for path in self.files.break_off(recording)]
            self._continues = self._continues or self.files.continues(recording)
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
            if self._continues and (self._partial or shared):
                self.say("streamer: the same command goes on there.")
            if one and tally.skipped:
                self.say("streamer: the transcript exists already: there is nothing to do.")
            if not has_summary and not one and (tally.failed or tally.skipped or tally.interrupted):
                self.say(f"streamer: {tally}.")


def output_of(
    options: argparse.Namespace, recordings: Sequence[ListedRecording], unreadable: Sequence[str]
) -> TranscriptOutput:
    """Return the output that the arguments ask for, and say what cannot be read. OutputError if it cannot be written.

    `unreadable`: a sentence about each further recording.
    """
    output = TranscriptOutput(
        formats_for(options.format, options.output),
        options.output,
        recordings,
        existing=options.existing,
        unreadable=len(unreadable),
        times=options.times,
        speakers=bool(options.speakers),
        headings=options.headings,
    )
    for sentence in unreadable:
        output.say(f"streamer: {sentence}")
    return output


class RecordingOutput:
    """The output of one recording."""

    def __init__(self, output: TranscriptOutput, index: int) -> None:
        self.has_turn = False
        self.sound: Sound | None = None  # for a page for reading
        self._whole = False
        self._output = output
        self._index = index
        self._recording = output.recordings[index]
        self._transcript = Transcript(self._recording.name)
        self._text = TextWriter(times=output.times)
        self._abrupt: list[Mapping[str, Any]] = []  # finals whose last word may have been cut in two
        self._journal: Journal | None = None
        self._uncertain: list[Mapping[str, Any]] = []  # finals that are not in the journal yet
        self._before: Beginning | None = None  # what an earlier command did, until it is known whether it goes on
        self._about: tuple[JsonObject, JsonObject] = {}, {}  # what the journal says about the recording
        self._live_heading = output.live and len(output.recordings) > 1
        self._pending: list[tuple[str, str]] = []
        self._begun = False
        self._headed = False

    @property
    def wants_sound(self) -> bool:
        """Whether the transcript has the sound of the recording, too."""
        return "html" in self._output.formats

    @property
    def name(self) -> str:
        """The name of the recording."""
        return self._recording.name

    @property
    def words(self) -> bool:
        """Whether there are any words so far."""
        return bool(self._transcript.text.strip())

    @property
    def after(self) -> list[JsonObject] | None:
        """The finals behind which the recognition goes on. None if nothing can go on behind it."""
        if self._journal is None:
            return None
        return [] if self._before is None else self._before.finals

    def continue_from(self, recording: JsonObject, options: JsonObject) -> bool:
        """Find out where an earlier command stopped. Return whether it had recognised all of the recording.

        `recording` and `options`: what decides whether its words can be used. OutputError if they cannot, and would be
        lost.
        """
        self._journal = self._output.files.journal(self._recording)
        if self._journal is None:
            return False
        self._about = recording, options
        before = self._journal.beginnings.get(self._recording.name)
        if before is None:
            others = self._journal.beginnings.values()
            before = next((each for each in others if each.recording == recording), None) if len(others) == 1 else None
        if before is None or before.recording != recording:
            why = "it is of another recording" if self._journal.beginnings else "it has no journal"
        elif before.options != options:
            why = "it has other options"
        elif self._output.speakers:
            why = "speakers are told apart in a whole recording"
        else:
            self._before = before
            return before.done
        self._output.files.may_replace_partial(self._recording, why)
        return False

    def begin(self, duration_ms: int | None) -> None:
        """Note that the recording begins. `duration_ms`: its length if known."""
        self._begun = True
        self._transcript.recording_ms = duration_ms
        self._output.display.begin(self._index, self._recording.name, duration_ms)
        if self.has_turn:
            self._write_live_heading()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event of the session."""
        kind = event["type"]
        if kind == "final":
            # A final that ends with the audio may be one that a failing service has cut in a word. It counts if the
            # recording goes on after it, or ends there.
            self._uncertain.append(event)
            if not is_abrupt(event):
                self._note_finals()
        self._show({name: value for name, value in event.items() if name != "context"})
        if kind == "ready" and self._journal is not None:
            self._note_beginning(self._journal, str(event.get("triton_model", "")))

    def continues(self, model: str) -> bool:
        """Return whether this model is the one with which an earlier command began. If not, all begins anew."""
        if self._before is None or self._before.model == model:
            return True
        self._before = None
        self._output.say(f"streamer: {self._recording.name} begins anew, because the service has another model now.")
        return False

    def repeat(self) -> None:
        """Write all words of an earlier command, which had recognised the whole recording."""
        assert self._before is not None
        for final in self._before.finals:
            self._show({name: value for name, value in final.items() if name != "context"})
        self._show({"type": "done", "audio_ms": self._before.audio_ms})
        self._journal = None
        self.end()

    def write(self, transcript: Transcript) -> None:
        """Write a transcript that is there already, in other formats."""
        self._transcript = transcript
        names, speakers = transcript.channel_names, transcript.speaker_names
        self._text = TextWriter(times=self._output.times, names=names, speakers=speakers)
        for segment in transcript.segments:
            for format in self._output.formats:
                if format == "text" and not self._output.speakers:
                    self._write_text(self._text.add(segment))
                elif format == "jsonl":
                    self._write(format, event_line({"type": "final", **segment}))
        if transcript.complete and "jsonl" in self._output.formats:
            self._write("jsonl", event_line({"type": "done", "audio_ms": transcript.duration_ms}))
        self._write_ends()
        self._output.files.finish(self._recording)
        self._whole = True

    def end(self) -> None:
        """Note that the recording is complete."""
        self._transcript.complete = True
        self._note_finals()
        if self._journal is not None:
            self._journal.finish(self._recording.name, self._transcript.duration_ms)
        self._write_text("".join(map(self._text.add, self._abrupt)))
        self._write_ends()
        self._output.files.finish(self._recording)
        self._whole = True

    def break_off(self) -> None:
        """Note that the recording will not be complete. Its finals are written."""
        any_words = bool(self._transcript.segments)
        self._transcript.break_off()
        if not any_words:
            return
        try:
            for final in self._abrupt:
                self._write_text("".join(map(self._text.add, _without_tail(final))))
            self._write_ends()
        except OutputError as error:
            self._output.say(f"streamer: {error}")

    def take_turn(self) -> None:
        """Write to the shared output from now on, first what has waited."""
        self.has_turn = True
        if self._begun:
            self._write_live_heading()
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

    def _note_finals(self) -> None:
        """Put the finals into the journal that are not there yet."""
        finals, self._uncertain = self._uncertain, []
        if self._journal is not None:
            for final in finals:
                self._journal.add(self._recording.name, final)

    def _note_beginning(self, journal: Journal, model: str) -> None:
        """Go on behind the finals of an earlier command, or note that the recording begins."""
        name, before = self._recording.name, self._before
        alone = not self._output.files.shared or len(self._output.recordings) == 1
        if before is None:
            journal.begin(name, *self._about, model, alone=alone)
            return
        if name not in journal.beginnings:  # the recording has another name now
            journal.begin(name, *self._about, model, alone=alone)
            for final in before.finals:
                journal.add(name, final)
        for final in before.finals:
            self._show({key: value for key, value in final.items() if key != "context"})

    def _show(self, event: Mapping[str, Any]) -> None:
        output, kind = self._output, event["type"]
        self._transcript.add(event)
        if kind == "error":
            output.say(f"streamer: {self._recording.name}: {printable(str(event.get('message')))}")
        for format in output.formats:
            if format == "jsonl":
                self._write(format, event_line(event))
            elif kind == "final" and output.live:
                self._write(format, final_lines(event, sys.stdout))
            elif kind == "final" and format == "text" and not output.speakers:
                self._abrupt.append(event)
                if not is_abrupt(event):
                    finals, self._abrupt = self._abrupt, []
                    self._write_text("".join(map(self._text.add, finals)))
        if kind == "partial" and (self.has_turn or output.display.shows_all):
            output.display.words(self._index, event)
        if "audio_ms" in event:
            output.display.advance(self._index, event["audio_ms"])

    def _write_ends(self) -> None:
        """Write what is known at the end: documents, and where the transcript stops."""
        # A recording without words leaves a file, too.
        transcript = self._transcript
        if self._output.speakers:
            self._write_text("".join(map(self._text.add, transcript.segments)))
        for format in self._output.formats:
            if format == "text" and self._output.live:
                self._write(format, "")
            elif format == "text":
                self._write_text(self._text.end(stop_text(transcript)))
            elif format == "jsonl":
                self._write(format, "" if transcript.complete else event_line(stop_event(transcript)))
            elif format == "html":
                self._write(format, render_page(transcript, self.sound))
            else:
                self._write(format, transcript.render(format))

    def _write_text(self, text: str) -> None:
        if "text" not in self._output.formats or self._output.live:
            return
        if text and not self._headed:
            self._headed = True
            # The heading of a recording comes with its turn, because it depends on what was written before.
            self._write("text", _HEADING)
        self._write("text", text)

    def _write(self, format: str, text: str) -> None:
        if self._output.files.shared and not self.has_turn:
            self._pending.append((format, text))
            return
        if text is _HEADING:
            text = self._output.heading(self._recording.name)
        if self._output.files.on_terminal:
            self._output.display.clear()
        self._output.files.write(self._recording, format, text)

    def _write_live_heading(self) -> None:
        if self._live_heading:
            self._live_heading = False
            self._output.say(self._recording.name)


def _without_tail(final: Mapping[str, Any]) -> list[TranscriptSegment]:
    """Return a final without the word that was cut in two, as a segment, or nothing."""
    transcript = Transcript("")
    transcript.add(final)
    transcript.break_off()
    return transcript.segments


def _display(tally: Tally, *, words: bool, on_terminal: bool) -> TranscriptionDisplay:
    """Return the display. `words`: text goes to a terminal. `on_terminal`: output of any format goes there."""
    shows_progress = is_terminal(sys.stderr)
    if shows_progress and tally.named > 1:
        return ProgressBoard(sys.stderr, tally, words=words)
    if words:
        # If words and progress share a terminal, progress is shown below the words.
        return WordsDisplay(sys.stdout, progress=shows_progress)
    return ProgressDisplay(sys.stderr) if shows_progress and not on_terminal else TranscriptionDisplay()
