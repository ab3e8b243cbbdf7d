"""Makes training speech from a folder of recordings without text: cuts them, and keeps what several witnesses heard."""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import soundfile  # type: ignore[import-untyped]

from streamer.audio.audio_file import read_audio
from streamer.audio.recordings import AudioError, list_recordings
from streamer.base.text import counted
from workshop.data.corpus import SAMPLE_RATE, CorpusError, Row, Samples, write_given
from workshop.labelling.agreement import Heard, Limits, Verdict, judge
from workshop.labelling.cutting import Cutter, Piece
from workshop.labelling.reading_journal import HeardPiece, Journal, all_pieces
from workshop.labelling.witnesses import Witness
from workshop.processes import StoppedError

_TOLD_EVERY_S: Final = 30.0


@dataclass(frozen=True)
class Recording:
    """A recording by its name, and how to read it."""

    name: str
    samples: Callable[[], Samples]


def recordings_in(folder: Path) -> list[Recording]:
    """Return the recordings below a folder, in natural order. CorpusError if there are none."""
    if not folder.is_dir():
        raise CorpusError(f"{folder} is no folder")
    found, errors = list_recordings(str(folder))
    if errors:
        raise CorpusError(" ".join(map(str, errors)))
    return [Recording(each.path.as_posix(), _reading(each.name)) for each in found]


def _reading(path: str) -> Callable[[], Samples]:
    return lambda: read_audio(path)


@dataclass
class Progress:
    """What a run has done so far, and what it cost."""

    recordings: int
    witnesses: Sequence[str]
    tell: Callable[[str], None]
    done: int = 0
    heard_s: float = 0.0  # of audio in this run, pauses included
    cpu_s: Counter[str] = field(default_factory=Counter)
    pieces_s: float = 0.0
    began: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)

    def count(self, piece: Piece, heard: Sequence[Heard]) -> None:
        """Count a piece that was heard. Tell what was done if that was not told for some time."""
        self.pieces_s += piece.seconds
        self.cpu_s.update({name: each.cpu_s for name, each in zip(self.witnesses, heard, strict=True)})
        if time.monotonic() - self._told >= _TOLD_EVERY_S:
            self._told = time.monotonic()
            self.tell(str(self))

    def __str__(self) -> str:
        parts = [f"{self.done} of {counted(self.recordings, 'recording')}"]
        took = time.monotonic() - self.began
        if self.pieces_s:
            parts.append(f"{self.pieces_s / 3600:.2f} h of speech heard, {self.pieces_s / took:.1f} times real time")
            cost = (f"{name} {1000 * self.cpu_s[name] / self.pieces_s:.0f} ms" for name in self.witnesses)
            parts.append(f"a second of it took {', '.join(cost)} of a processor")
        return "; ".join(parts)


def hear_all(
    recordings: Sequence[Recording],
    cutter: Cutter,
    witnesses: Mapping[str, Witness],
    journal: Journal,
    tell: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Let the witnesses hear all recordings that are not complete in the journal.

    StoppedError between two pieces if this is wanted, CorpusError if a recording has changed since it was heard.
    """
    progress = Progress(len(recordings), list(witnesses), tell)
    for recording in recordings:
        known = journal.of(recording.name)
        if not known.complete:
            try:
                samples = recording.samples()
            except (AudioError, OSError) as error:
                journal.fail(recording.name, str(error))
                tell(str(error))
            else:
                pieces = cutter.cut(samples)
                if [one.piece for one in known.pieces] != pieces[: len(known.pieces)]:
                    raise CorpusError(_changed(recording))
                for piece in pieces[len(known.pieces) :]:
                    if stopped():
                        raise StoppedError
                    heard = tuple(each.hear(samples[piece.start : piece.end]) for each in witnesses.values())
                    journal.add(recording.name, HeardPiece(piece, heard))
                    progress.count(piece, heard)
                journal.finish(recording.name, round(len(samples) / SAMPLE_RATE, 3))
        progress.done += 1
    tell(str(progress))


@dataclass(frozen=True)
class Judge:
    """Everything but a piece that decides whether it is kept."""

    limits: Limits
    knows: Callable[[str], bool]
    avoided: Collection[str] = frozenset()

    def verdict(self, one: HeardPiece) -> Verdict:
        """Return what becomes of a piece."""
        return judge(one.heard, one.piece.speech_s, self.limits, self.knows, self.avoided)


def write_kept(recordings: Sequence[Recording], journal: Journal, judge: Judge, output: Path, name: str) -> list[Row]:
    """Write the pieces that are kept as a folder of given speech. CorpusError if a recording has changed."""
    return write_given(output, name, _kept(recordings, journal, judge, name))


def _kept(recordings: Sequence[Recording], journal: Journal, judge: Judge, name: str) -> Iterator[tuple[Row, bytes]]:
    for recording in recordings:
        kept = [one for one in journal.of(recording.name).pieces if judge.verdict(one) is Verdict.KEPT]
        if not kept:
            continue
        samples = recording.samples()
        # Another folder may have recordings of the same names. The words in the journal are not said in these.
        if round(len(samples) / SAMPLE_RATE, 3) != journal.of(recording.name).seconds:
            raise CorpusError(_changed(recording))
        # A manifest is divided by tabs and lines.
        plain = re.sub(r"\s", " ", recording.name)
        for one in kept:
            piece, text = one.piece, " ".join(one.heard[0].words).upper()
            member = f"{plain}-{1000 * piece.start // SAMPLE_RATE:08d}.flac"
            # The speakers are unknown, so each recording gets a speaker of its own.
            row = Row("", member, round(piece.seconds, 3), name, plain, text)
            yield row, _flac(samples[piece.start : piece.end])


def _changed(recording: Recording) -> str:
    return f"{recording.name} has changed since it was heard: give another folder for the output"


def _flac(samples: Samples) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, np.ascontiguousarray(samples), SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    return stream.getvalue()


def summary(recordings: Sequence[Recording], journal: Journal, judge: Judge) -> str:
    """Return a line with what was kept, and what was dropped for each reason."""
    known = [journal.of(recording.name) for recording in recordings]
    verdicts = [(judge.verdict(one), one.piece.seconds) for one in all_pieces(known)]
    number = Counter(verdict for verdict, _ in verdicts)
    hours = sum(seconds for verdict, seconds in verdicts if verdict is Verdict.KEPT) / 3600
    whole = sum(seconds for _, seconds in verdicts) / 3600
    parts = [f"kept {number[Verdict.KEPT]} of {counted(len(verdicts), 'piece')}, {hours:.2f} of {whole:.2f} h"]
    dropped = [f"{number[each]} {each.value}" for each in Verdict if each is not Verdict.KEPT]
    parts.append(f"dropped: {', '.join(dropped)}")
    silent = sum(each.complete and not each.pieces for each in known)
    unread = sum(bool(each.error) for each in known)
    parts.append(f"of {counted(len(known), 'recording')}, {silent} without speech and {unread} that cannot be read")
    return "; ".join(parts)
