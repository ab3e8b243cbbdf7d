"""Runs one long session that sends recordings again and again, with pauses of varied length.

In every second round flushes separate the recordings. A segment depends on its own audio alone. So its words must be
those of the first such round, and its times must be the same except for the offset. The other rounds are cut wherever
the recogniser finds a silence.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.client import connect
from streamer.commands.accuracy.manifest import read_manifest, select_utterances
from workshop.watched_process import Watched

PER_MS = SAMPLE_RATE // 1000
SENT_AT_ONCE_MS = 200
# Without a pace, audio is sent at most this far ahead of recognition. The sockets alone would hold minutes of audio.
AHEAD_MS = 10_000
SAMPLED_MS = 5000
PAUSES_MS = (400, 4000)  # some shorter than the silence that ends a segment, some longer
APART_MS = (2000, 4000)  # always longer, so that the last words do not depend on the pause


def read_recordings(manifest: Path, limit: int | None = None) -> list[Recording]:
    """Read the recordings of a manifest; with a limit this many of them, evenly spread."""
    return [
        Recording(_whole_ms(utterance.samples()), utterance.words)
        for utterance in select_utterances(read_manifest(manifest), limit=limit)
    ]


async def session(
    url: str, recordings: Sequence[Recording], watched: Watched, *, minutes: float, pace: float, search: str
) -> LongSessionRecord:
    """Send the recordings for this many minutes. `pace`: how many times as fast as spoken; 0: as fast as possible."""
    record = LongSessionRecord(samples=[_sample(watched, 0)])
    sent: deque[tuple[int, float]] = deque()  # how much audio was sent when
    progress = asyncio.Event()
    async with connect(url, {"search": search}) as opened:

        async def send() -> None:
            began = time.monotonic()
            for turn, audio in _turns(recordings, int(minutes * 60_000)):
                record.turns.append(turn)
                if turn.exact or turn.recording == 0:
                    await opened.flush()
                step = SENT_AT_ONCE_MS * PER_MS
                for offset in range(0, len(audio), step):
                    piece = audio[offset : offset + step]
                    so_far = turn.start_ms + (offset + len(piece)) // PER_MS
                    while so_far > record.heard_ms + AHEAD_MS and not pace:
                        progress.clear()
                        await progress.wait()
                    if pace:
                        await asyncio.sleep(began + so_far / 1000 / pace - time.monotonic())
                    await opened.send(piece)
                    sent.append((so_far, time.monotonic()))
            await opened.stop()

        sending = asyncio.create_task(send())
        try:
            async for event in opened:
                _note(event, record, sent, watched)
                progress.set()
            await sending
        finally:
            sending.cancel()
    return record


def _turns(recordings: Sequence[Recording], length_ms: int) -> Iterator[tuple[Turn, NDArray[np.int16]]]:
    rng = np.random.default_rng(1)
    # Every pause has the same faint noise, so that the audio before a cut does not depend on the length of the pause.
    noise = rng.integers(-4, 5, PAUSES_MS[1] * PER_MS, dtype=np.int16)
    at, number = 0, 0
    while at < length_ms:
        for index, recording in enumerate(recordings):
            pause = int(rng.integers(*(PAUSES_MS if number % 2 else APART_MS)))
            audio = np.concatenate([recording.audio, noise[: pause * PER_MS]])
            turn = Turn(index, number, at, at + len(audio) // PER_MS)
            yield turn, audio
            at = turn.end_ms
        number += 1


def _note(
    event: Mapping[str, Any], record: LongSessionRecord, sent: deque[tuple[int, float]], watched: Watched
) -> None:
    if event["type"] == "final":
        record.words += [(word["word"], word["start_ms"], word["end_ms"]) for word in event["words"]]
    audio_ms = event.get("audio_ms")
    if audio_ms is None:
        return
    record.heard_ms = max(record.heard_ms, audio_ms)
    sent_at = None
    while sent and sent[0][0] <= audio_ms:
        sent_at = sent.popleft()[1]
    if sent_at is not None:
        record.delays.append((audio_ms, time.monotonic() - sent_at))
    if audio_ms >= record.samples[-1].audio_ms + SAMPLED_MS or event["type"] == "done":
        record.samples.append(_sample(watched, audio_ms))


def _sample(watched: Watched, audio_ms: int) -> Sample:
    return Sample(audio_ms, time.monotonic(), watched.memory_mb(), watched.cpu_s())


def _whole_ms(audio: NDArray[np.int16]) -> NDArray[np.int16]:
    return audio[: len(audio) // PER_MS * PER_MS]


# The record of one long session: its turns, the recognised words, and samples of memory and processor time.


@dataclass(frozen=True)
class Recording:
    """Audio of whole milliseconds, and its reference words."""

    audio: NDArray[np.int16]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """One use of a recording in the session, with the pause after it."""

    recording: int
    round: int
    start_ms: int
    end_ms: int

    @property
    def exact(self) -> bool:
        """Whether flushes separate the turn from the others, so that its words must always be the same."""
        return self.round % 2 == 0


@dataclass(frozen=True)
class Word:
    """A word of a final; its times count from the beginning of its turn."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Sample:
    """The figures of the processes when this much audio was recognised."""

    audio_ms: int
    at: float
    memory_mb: Mapping[str, float]
    cpu_s: float


@dataclass
class LongSessionRecord:
    """Everything that was observed of a session."""

    turns: list[Turn] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    delays: list[tuple[int, float]] = field(default_factory=list)  # audio_ms, seconds from sending to recognition
    words: list[tuple[str, int, int]] = field(default_factory=list)
    heard_ms: int = 0


# Checks that a long session does not change over time: memory, delay, times and words, with bounds.

# The bounds. They are on processor time instead of the clock, because the clock also counts other work of the machine.
GROWTH_MB = 8.0
CPU_RATIO = 1.25
DELAY_RATIO, DELAY_S = 2.0, 0.5
EXACT_MS = 1
DRIFT_MS = 20.0
WRONG_POINTS = 5.0


def failures(record: LongSessionRecord, recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield a sentence for each bound that was exceeded."""
    end = record.samples[-1].audio_ms
    settled = next(sample for sample in record.samples if sample.audio_ms >= end / 10)
    for name, before in settled.memory_mb.items():
        grown = record.samples[-1].memory_mb[name] - before
        if grown > GROWTH_MB:
            yield f"the memory of {name} grew by {grown:.1f} MB"
    first, last = _tenths(record)
    if record.samples[0].memory_mb and _cpu_a_minute(last) > CPU_RATIO * _cpu_a_minute(first):
        yield f"a minute took {_cpu_a_minute(last):.1f} s of CPU time at the end, {_cpu_a_minute(first):.1f} s before"
    early, late = _delay(record, first), _delay(record, last)
    if late > DELAY_RATIO * early + DELAY_S:
        yield f"results arrived {late:.2f} s after their audio at the end, {early:.2f} s before"
    words_by_turn = _words_by_turn(record)
    yield from _exactness(words_by_turn)
    free = [shift for turn, shift in _shifts(words_by_turn) if turn.start_ms >= 0.9 * end and not turn.exact]
    if free and abs(median(free)) > DRIFT_MS:
        yield f"times drifted by {median(free):.0f} ms"
    more = _more_wrong(words_by_turn, recordings, end / 2)
    if more > WRONG_POINTS:
        yield f"{more:.1f} % more words were wrong in the second half"


def report(record: LongSessionRecord) -> str:
    """Return a table with a line for every tenth of the session, and a summary."""
    names = list(record.samples[0].memory_mb)
    words_by_turn = _words_by_turn(record)
    shifts = _shifts(words_by_turn)
    heads = ["minute", *(f"{name} MB" for name in names), "clock s/min", "CPU s/min", "delay s", "drift ms"]
    lines = [heads, ["---:"] * len(heads)]
    for tenth in range(10):
        part = _part(record, tenth, tenth + 1)
        moved = [shift for turn, shift in shifts if part[0].audio_ms <= turn.start_ms < part[-1].audio_ms]
        memory = [f"{part[-1].memory_mb[name]:.1f}" for name in names]
        cpu = f"{_cpu_a_minute(part):.1f}" if names else "-"
        drift = f"{median(moved):.0f}" if moved else "-"
        clock = _a_minute(part, part[-1].at - part[0].at)
        lines.append(
            [f"{part[-1].audio_ms / 60_000:.1f}", *memory, f"{clock:.1f}", cpu, f"{_delay(record, part):.2f}", drift]
        )
    exact = [turn for turn in words_by_turn if turn.exact]
    lost = sum(1 for _ in _exactness(words_by_turn))
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    totals = f"{len(record.words)} words in {len(words_by_turn)} turns"
    return f"{table}\n\n{totals}; {len(exact)} of them separated by flushes, {lost} of these differ from the first."


def _words_by_turn(record: LongSessionRecord) -> dict[Turn, list[Word]]:
    """Return the words of each turn. A word belongs to the turn in which its middle is."""
    words_by_turn: dict[Turn, list[Word]] = {turn: [] for turn in record.turns}
    turns = iter(record.turns)
    turn = next(turns)
    for text, start, end in record.words:
        while (start + end) / 2 >= turn.end_ms and (following := next(turns, None)):
            turn = following
        words_by_turn[turn].append(Word(text, start - turn.start_ms, end - turn.start_ms))
    return words_by_turn


def _shifts(words_by_turn: Mapping[Turn, Sequence[Word]]) -> list[tuple[Turn, float]]:
    """Return how much later the words of each turn are than in the first turn of its recording: the median."""
    shifts = []
    firsts = {(turn.recording, turn.exact): words for turn, words in reversed(list(words_by_turn.items()))}
    for turn, words in words_by_turn.items():
        first = firsts[turn.recording, turn.exact]
        same = difflib.SequenceMatcher(None, [w.text for w in first], [w.text for w in words], autojunk=False)
        moved = [
            words[block.b + index].start_ms - first[block.a + index].start_ms
            for block in same.get_matching_blocks()
            for index in range(block.size)
        ]
        if moved:
            shifts.append((turn, float(median(moved))))
    return shifts


def _exactness(words_by_turn: Mapping[Turn, Sequence[Word]]) -> Iterator[str]:
    firsts: dict[int, Sequence[Word]] = {}
    for turn, words in words_by_turn.items():
        if not turn.exact:
            continue
        first = firsts.setdefault(turn.recording, words)
        where = f"recording {turn.recording + 1} at {turn.start_ms / 60_000:.1f} min"
        if [word.text for word in words] != [word.text for word in first]:
            yield f"{where} has other words than in the first round"
        elif any(
            max(abs(word.start_ms - before.start_ms), abs(word.end_ms - before.end_ms)) > EXACT_MS
            for word, before in zip(words, first, strict=True)
        ):
            yield f"{where} has other times than in the first round"


def _more_wrong(words_by_turn: Mapping[Turn, Sequence[Word]], recordings: Sequence[Recording], middle: float) -> float:
    """Return how many more words are wrong in the second half, in percent. The same recordings are compared."""
    wrong: dict[tuple[int, bool], list[float]] = {}
    for turn, words in words_by_turn.items():
        matcher = difflib.SequenceMatcher(None, recordings[turn.recording].words, [word.text for word in words], False)
        right = sum(block.size for block in matcher.get_matching_blocks())
        wrong.setdefault((turn.recording, turn.start_ms >= middle), []).append(
            100 * (1 - right / len(recordings[turn.recording].words))
        )
    both = [number for number, late in wrong if late and (number, False) in wrong]
    changes = [mean(wrong[number, True]) - mean(wrong[number, False]) for number in both]
    return mean(changes) if changes else 0.0


def _part(record: LongSessionRecord, first: int, last: int) -> list[Sample]:
    """Return the samples between two tenths of the session."""
    end = record.samples[-1].audio_ms
    return [
        sample for sample in record.samples if first * end / 10 <= sample.audio_ms <= last * end / 10
    ] or record.samples[-1:]


def _tenths(record: LongSessionRecord) -> tuple[list[Sample], list[Sample]]:
    # The last tenth is compared with the second one, because in the first one caches fill.
    return _part(record, 1, 2), _part(record, 9, 10)


def _a_minute(part: Sequence[Sample], amount: float) -> float:
    audio_ms = part[-1].audio_ms - part[0].audio_ms
    return amount * 60_000 / audio_ms if audio_ms else 0.0


def _cpu_a_minute(part: Sequence[Sample]) -> float:
    return _a_minute(part, part[-1].cpu_s - part[0].cpu_s)


def _delay(record: LongSessionRecord, part: Sequence[Sample]) -> float:
    delays = [delay for audio, delay in record.delays if part[0].audio_ms <= audio <= part[-1].audio_ms]
    return median(delays) if delays else 0.0
