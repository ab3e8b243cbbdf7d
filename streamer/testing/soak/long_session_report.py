"""Checks that a long session does not change over time: memory, delay, times and words, with bounds."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median

from streamer.testing.soak.long_session_record import LongSessionRecord, Recording, Sample, Turn, Word

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
