"""Measures how much time the parts of a program take while it runs: each without the parts within it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

ALL: Final = "all"
REST: Final = "rest"

Places = Mapping[str, Sequence[tuple[Any, str]]]
"""For each part, the functions that are it: their class or module, and their name there."""


@dataclass(frozen=True)
class PartTimes:
    """The seconds and the calls of each part, and the seconds of all of them and the rest."""

    seconds: dict[str, float]
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@contextmanager
def part_times(places: Places, clock: Callable[[], float] = time.thread_time) -> Iterator[PartTimes]:
    """Measure these parts by a clock, by default that of the processor time of this thread."""
    times = PartTimes(dict.fromkeys((ALL, *places, REST), 0.0))
    within = [REST]
    since = clock()
    functions = [(part, *place) for part, own in places.items() for place in own]
    originals = [getattr(kind, name) for _, kind, name in functions]

    def change() -> None:
        nonlocal since
        now = clock()
        times.seconds[within[-1]] += now - since
        since = now

    def watch(part: str, original: Any) -> Any:
        def measured(*arguments: Any, **keywords: Any) -> Any:
            change()
            within.append(part)
            try:
                return original(*arguments, **keywords)
            finally:
                change()
                within.pop()
                times.calls[part] += 1

        return measured

    for (part, kind, name), original in zip(functions, originals, strict=True):
        setattr(kind, name, watch(part, original))
    try:
        yield times
    finally:
        change()
        times.seconds[ALL] = sum(times.seconds.values())
        for (_, kind, name), original in zip(functions, originals, strict=True):
            setattr(kind, name, original)
