"""One long session through the service: does memory grow, do results come later, do times drift, do words change?

The recordings of a manifest (those of audio_samples/, if none is named) are said again and again with pauses of varied
length. In every second round a flush parts each recording from the others: a segment depends on its own audio alone, so
its words must be those of the first such round and their times the same but for the offset. The other rounds are cut
by silence wherever that falls. Without --server a service is started as `streamer serve` does. Memory is what
belongs to a process alone (Linux: RssAnon and RssShmem), so mapped tables do not count. Prints a table; the exit status
is 0 only if every bound holds.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
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
from streamer.audio.recording_check import AudioError
from streamer.client import SessionError, connect
from streamer.evaluate.manifest import ManifestError, read_manifest, select_utterances
from streamer.shipped import shipped
from streamer.testing.watched_process import Watched, service

DEFAULT = "audio_samples/samples.tsv"
PER_MS = SAMPLE_RATE // 1000
SENT_AT_ONCE_MS = 200
# As fast as it goes means so far ahead of what was heard: sockets alone would take minutes.
AHEAD_MS = 10_000
SAMPLED_MS = 5000
PAUSES_MS = (400, 4000)  # shorter than the silence that ends a segment, and longer
APART_MS = (2000, 4000)  # always longer: what is said last must not depend on the pause

# Bounds. Processor time is judged and not the clock: the clock also counts what else the machine does.
GROWTH_MB = 8.0
CPU_RATIO = 1.25
DELAY_RATIO, DELAY_S = 2.0, 0.5
EXACT_MS = 1
DRIFT_MS = 20.0
WRONG_POINTS = 5.0


@dataclass(frozen=True)
class Recording:
    """Sound of whole milliseconds, and the words that are said in it."""

    sound: NDArray[np.int16]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """One saying of a recording: where it lies in the session, its pause included."""

    recording: int
    round: int
    start_ms: int
    end_ms: int

    @property
    def exact(self) -> bool:
        """Whether it is parted from the others."""
        return self.round % 2 == 0


@dataclass(frozen=True)
class Word:
    """A word of a final; its times count from the beginning of its turn."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Sample:
    """The state of things when so much audio was heard."""

    audio_ms: int
    at: float
    memory_mb: Mapping[str, float]
    cpu_s: float


@dataclass
class Record:
    """All that was seen of a session."""

    turns: list[Turn] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    delays: list[tuple[int, float]] = field(default_factory=list)  # audio_ms, seconds from sent to heard
    words: list[tuple[str, int, int]] = field(default_factory=list)
    heard_ms: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("manifest", nargs="?", type=Path, default=shipped(DEFAULT))
    parser.add_argument("--limit", type=int, help="recordings of the manifest, evenly spread (all)")
    parser.add_argument("--minutes", type=float, default=60.0, help="of audio (60)")
    parser.add_argument("--pace", type=float, default=0.0, help="times as fast as spoken; 0: as fast as it goes (0)")
    parser.add_argument("--server", metavar="URL", help="a service that runs already; its memory is not seen")
    parser.add_argument("--search", default="lexicon", help="of the session (lexicon)")


def run(options: argparse.Namespace) -> int:
    """Run the session and judge it."""
    try:
        recordings = [
            Recording(_whole_ms(utterance.samples()), utterance.words)
            for utterance in select_utterances(read_manifest(options.manifest), limit=options.limit)
        ]
        with service(options.server) as (url, watched):
            record = asyncio.run(session(url, recordings, options, watched))
    except (ManifestError, AudioError, SessionError, OSError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    print(report(record))
    broken = list(judged(record, recordings))
    for complaint in broken:
        print(f"soak: {complaint}", file=sys.stderr)
    return int(bool(broken))


async def session(url: str, recordings: Sequence[Recording], options: argparse.Namespace, watched: Watched) -> Record:
    """Say the recordings for so many minutes; everything that came back."""
    record = Record(samples=[_sample(watched, 0)])
    sent: deque[tuple[int, float]] = deque()  # how much audio was sent when
    heard = asyncio.Event()
    async with connect(url, {"search": options.search}) as opened:

        async def send() -> None:
            began = time.monotonic()
            for turn, sound in _turns(recordings, int(options.minutes * 60_000)):
                record.turns.append(turn)
                if turn.exact or turn.recording == 0:
                    await opened.flush()
                step = SENT_AT_ONCE_MS * PER_MS
                for place in range(0, len(sound), step):
                    piece = sound[place : place + step]
                    so_far = turn.start_ms + (place + len(piece)) // PER_MS
                    while so_far > record.heard_ms + AHEAD_MS and not options.pace:
                        heard.clear()
                        await heard.wait()
                    if options.pace:
                        await asyncio.sleep(began + so_far / 1000 / options.pace - time.monotonic())
                    await opened.send(piece)
                    sent.append((so_far, time.monotonic()))
            await opened.stop()

        sending = asyncio.create_task(send())
        try:
            async for event in opened:
                _note(event, record, sent, watched)
                heard.set()
            await sending
        finally:
            sending.cancel()
    return record


def judged(record: Record, recordings: Sequence[Recording]) -> Iterator[str]:
    """A sentence for each bound that does not hold."""
    end = record.samples[-1].audio_ms
    settled = next(sample for sample in record.samples if sample.audio_ms >= end / 10)
    for name, before in settled.memory_mb.items():
        grown = record.samples[-1].memory_mb[name] - before
        if grown > GROWTH_MB:
            yield f"the memory of {name} grew by {grown:.1f} MB"
    first, last = _tenths(record)
    if record.samples[0].memory_mb and _cpu_a_minute(last) > CPU_RATIO * _cpu_a_minute(first):
        yield f"a minute took {_cpu_a_minute(last):.1f} s of processor at the end, {_cpu_a_minute(first):.1f} s before"
    early, late = _delay(record, first), _delay(record, last)
    if late > DELAY_RATIO * early + DELAY_S:
        yield f"results came {late:.2f} s after their audio at the end, {early:.2f} s before"
    said = _said(record)
    yield from _exactness(said)
    free = [shift for turn, shift in _shifts(said) if turn.start_ms >= 0.9 * end and not turn.exact]
    if free and abs(median(free)) > DRIFT_MS:
        yield f"times drifted by {median(free):.0f} ms"
    more = _more_wrong(said, recordings, end / 2)
    if more > WRONG_POINTS:
        yield f"{more:.1f} % more of the words were wrong in the second half"


def report(record: Record) -> str:
    """A line for the beginning, every tenth and the end."""
    names = list(record.samples[0].memory_mb)
    said = _said(record)
    shifts = _shifts(said)
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
    exact = [turn for turn in said if turn.exact]
    lost = sum(1 for _ in _exactness(said))
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return (
        f"{table}\n\n{len(record.words)} words in {len(said)} turns; {len(exact)} of them parted by a flush, "
        f"{lost} of these differ from the first."
    )


def _turns(recordings: Sequence[Recording], length_ms: int) -> Iterator[tuple[Turn, NDArray[np.int16]]]:
    dice = np.random.default_rng(1)
    # Faint noise, the same in every pause: what is heard up to a cut must not depend on the length of the pause.
    noise = dice.integers(-4, 5, PAUSES_MS[1] * PER_MS, dtype=np.int16)
    at, number = 0, 0
    while at < length_ms:
        for index, recording in enumerate(recordings):
            pause = int(dice.integers(*(PAUSES_MS if number % 2 else APART_MS)))
            sound = np.concatenate([recording.sound, noise[: pause * PER_MS]])
            turn = Turn(index, number, at, at + len(sound) // PER_MS)
            yield turn, sound
            at = turn.end_ms
        number += 1


def _note(event: Mapping[str, Any], record: Record, sent: deque[tuple[int, float]], watched: Watched) -> None:
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


def _said(record: Record) -> dict[Turn, list[Word]]:
    """The words of each turn, by the middle of the word."""
    said: dict[Turn, list[Word]] = {turn: [] for turn in record.turns}
    turns = iter(record.turns)
    turn = next(turns)
    for text, start, end in record.words:
        while (start + end) / 2 >= turn.end_ms and (following := next(turns, None)):
            turn = following
        said[turn].append(Word(text, start - turn.start_ms, end - turn.start_ms))
    return said


def _shifts(said: Mapping[Turn, Sequence[Word]]) -> list[tuple[Turn, float]]:
    """How much later than in the first round of its kind each turn has the words that both have, in the median."""
    found = []
    firsts = {(turn.recording, turn.exact): words for turn, words in reversed(list(said.items()))}
    for turn, words in said.items():
        first = firsts[turn.recording, turn.exact]
        same = difflib.SequenceMatcher(None, [w.text for w in first], [w.text for w in words], autojunk=False)
        moved = [
            words[block.b + place].start_ms - first[block.a + place].start_ms
            for block in same.get_matching_blocks()
            for place in range(block.size)
        ]
        if moved:
            found.append((turn, float(median(moved))))
    return found


def _exactness(said: Mapping[Turn, Sequence[Word]]) -> Iterator[str]:
    firsts: dict[int, Sequence[Word]] = {}
    for turn, words in said.items():
        if not turn.exact:
            continue
        first = firsts.setdefault(turn.recording, words)
        where = f"recording {turn.recording + 1} at {turn.start_ms / 60_000:.1f} min"
        if [word.text for word in words] != [word.text for word in first]:
            yield f"{where} has other words than at first"
        elif any(
            max(abs(word.start_ms - before.start_ms), abs(word.end_ms - before.end_ms)) > EXACT_MS
            for word, before in zip(words, first, strict=True)
        ):
            yield f"{where} has other times than at first"


def _more_wrong(said: Mapping[Turn, Sequence[Word]], recordings: Sequence[Recording], middle: float) -> float:
    """How many more of the words are not found where they were said behind the middle, per cent; same recordings."""
    wrong: dict[tuple[int, bool], list[float]] = {}
    for turn, words in said.items():
        matcher = difflib.SequenceMatcher(None, recordings[turn.recording].words, [word.text for word in words], False)
        found = sum(block.size for block in matcher.get_matching_blocks())
        wrong.setdefault((turn.recording, turn.start_ms >= middle), []).append(
            100 * (1 - found / len(recordings[turn.recording].words))
        )
    both = [number for number, late in wrong if late and (number, False) in wrong]
    changes = [mean(wrong[number, True]) - mean(wrong[number, False]) for number in both]
    return mean(changes) if changes else 0.0


def _part(record: Record, first: int, last: int) -> list[Sample]:
    """The samples between two tenths of the session."""
    end = record.samples[-1].audio_ms
    return [
        sample for sample in record.samples if first * end / 10 <= sample.audio_ms <= last * end / 10
    ] or record.samples[-1:]


def _tenths(record: Record) -> tuple[list[Sample], list[Sample]]:
    # The very beginning warms caches up: the second tenth is what the last is held against.
    return _part(record, 1, 2), _part(record, 9, 10)


def _a_minute(part: Sequence[Sample], amount: float) -> float:
    heard = part[-1].audio_ms - part[0].audio_ms
    return amount * 60_000 / heard if heard else 0.0


def _cpu_a_minute(part: Sequence[Sample]) -> float:
    return _a_minute(part, part[-1].cpu_s - part[0].cpu_s)


def _delay(record: Record, part: Sequence[Sample]) -> float:
    delays = [delay for audio, delay in record.delays if part[0].audio_ms <= audio <= part[-1].audio_ms]
    return median(delays) if delays else 0.0


def _whole_ms(sound: NDArray[np.int16]) -> NDArray[np.int16]:
    return sound[: len(sound) // PER_MS * PER_MS]
