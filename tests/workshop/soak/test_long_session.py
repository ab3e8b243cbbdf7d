"""The report of `scripts/service/soak.py long`, from made-up records with one fault each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from workshop.soak.long_session import LongSessionRecord, Recording, Sample, Turn, failures, report

RECORDINGS = [Recording(np.zeros(16_000, dtype=np.int16), ("the", "cat", "sat"))]
MINUTES = 20


def session(
    *,
    memory: Callable[[float], float] = lambda part: 100,
    slower: Callable[[float], float] = lambda part: 1,
    later: Callable[[float], float] = lambda part: 0,
    texts: Callable[[float], str] = lambda part: "the cat sat",
) -> LongSessionRecord:
    """Return records every ten seconds; each figure is a function of the progress of the session, from 0 to 1."""
    record = LongSessionRecord()
    length = MINUTES * 60_000
    cpu = clock = 0.0
    for number, start in enumerate(range(0, length, 10_000)):
        part = start / length
        record.samples.append(Sample(start, clock, {"model": memory(part)}, cpu))
        cpu, clock = cpu + slower(part), clock + slower(part)
        record.delays.append((start, slower(part)))
        record.turns.append(Turn(0, number, start, start + 10_000))
        for place, text in enumerate(texts(part).split()):
            at = start + 1000 * place + round(later(part))
            record.words.append((text, at, at + 400))
    record.samples.append(Sample(length, clock, {"model": memory(1)}, cpu))
    return record


def test_a_session_that_stays_the_same() -> None:
    """A session that stays the same has no complaint, and a table of ten lines."""
    record = session()
    assert list(failures(record, RECORDINGS)) == []
    lines = report(record).splitlines()
    assert lines[0] == "| minute | model MB | clock s/min | CPU s/min | delay s | drift ms |"
    assert lines[2:12] == [f"| {minute}.0 | 100.0 | 6.0 | 6.0 | 1.00 | 0 |" for minute in range(2, 21, 2)]
    assert lines[-1] == "360 words in 120 turns; 60 of them separated by flushes, 0 of these differ from the first."


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (session(memory=lambda part: 100 + 20 * part), "the memory of model grew by 18.0 MB"),
        (session(slower=lambda part: 1 + part), "of CPU time at the end"),
        (session(slower=lambda part: 1 + 5 * part), "results arrived"),
        (session(later=lambda part: 100 * part), "times drifted by"),
        (session(later=lambda part: 2 * (part > 0.5)), "has other times than in the first round"),
        (
            session(texts=lambda part: "the cat sat" if part < 0.5 else "the cat sat sat"),
            "has other words than in the first round",
        ),
        (
            session(texts=lambda part: "the cat sat" if part < 0.5 else "the dog sat"),
            "% more words were wrong",
        ),
    ],
)
def test_what_breaks_a_bound_is_told(record: LongSessionRecord, complaint: str) -> None:
    """Each broken bound has its own sentence."""
    assert any(complaint in found for found in failures(record, RECORDINGS))


def test_memory_may_rise_at_the_beginning() -> None:
    """Memory that grows in the first tenth and then stays does not count as growth."""
    record = session(memory=lambda part: 100 + 50 * (part > 0.02))
    assert list(failures(record, RECORDINGS)) == []
