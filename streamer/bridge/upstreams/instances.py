"""The instances of a model at one Triton: which of them are dead, and how a sequence begins at one that lives.

Each is a process. One that has died or was stopped is not started again by Triton, which says so of every request that
goes there, and still gives it new sequences: even before all others, since its slots are free.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamer.triton.link import Link, LinkError, Overdue, Sequence
from streamer.wire.model_events import ModelEvent

_DEAD: Final = re.compile(r"Stub process '([^']*)' is not healthy")
MOST_AT_ONCE: Final = 256
# A Triton that answers while its model says nothing to us for so long is given the model anew: there is a process that
# will not wake. It ends what others may have there, so it is not done soon, and each time in a row later.
SILENT_LIMIT_S: Final = 30.0
LONGEST_SILENT_LIMIT_S: Final = 300.0
_starting: set[asyncio.Task[None]] = set()  # sequences that nobody needs any more, until they are ended


def has_died(error: LinkError) -> bool:
    """Whether a request failed because the process that it went to has."""
    return _DEAD.search(error.message) is not None


class Instances:
    """Known by their names, from what they answered."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.dead_since: float | None = None  # when that was noticed
        self._known: set[str] = set()

    def answered(self, names: Iterable[str]) -> None:
        """These live."""
        self._known.update(names)
        self.dead.difference_update(names)
        if not self.dead:
            self.dead_since = None

    def failed(self, message: str) -> bool:
        """A request failed with these words; True if that tells the death of one, and others are known to live."""
        found = _DEAD.search(message)
        if found is None:
            return False
        self.dead.add(found[1])
        self._known.add(found[1])
        return self.dead < self._known


class OpeningFailures:
    """What failed attempts to open an upstream tell: whether its model has to be loaded again."""

    def __init__(self) -> None:
        self._silent_since: float | None = None
        self._limit_s = SILENT_LIMIT_S

    def need_reload(self, error: LinkError, began: float, now: float) -> bool:
        """A probe that began then failed with this error; True if only another process of the model will help."""
        if not isinstance(error, Overdue):
            self._silent_since = None
            return has_died(error)
        if self._silent_since is None:
            self._silent_since = began
        if now - self._silent_since < self._limit_s:
            return False
        self._silent_since, self._limit_s = None, min(2 * self._limit_s, LONGEST_SILENT_LIMIT_S)
        return True


async def begin_past_the_dead(
    link: Link, options: Mapping[str, Any], taken: int, timeout: float
) -> tuple[Sequence, list[ModelEvent]]:
    """A sequence at an instance that lives, and its first events; LinkError if there is none.

    Triton gives a sequence the lowest free slot, whichever instance that is of: where `taken` are held by those that
    live, one more than that gets past those of the dead. Those that fail are not ended, so that they hold their slots
    until Triton forgets them, and the next ones get past the sooner.
    """
    # Hotwords take long to prepare: only the sequence that is kept gets them.
    costly = bool(options.get("hotwords"))
    first = {**options, "hotwords": []} if costly else options
    sequences = [link.sequence(first) for _ in range(min(taken + 2, MOST_AT_ONCE))]
    asked = {asyncio.create_task(_begun(sequence, timeout)): sequence for sequence in sequences}
    waiting, error = set(asked), LinkError("unavailable", "no instance lives")
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer = task.result()
                if not isinstance(answer, LinkError):
                    sequence = asked.pop(task)
                    return sequence, await _prepared(sequence, options, timeout) if costly else answer
                error = answer
        raise error
    finally:
        for task, sequence in asked.items():
            ending = asyncio.create_task(_end(task, sequence))
            _starting.add(ending)
            ending.add_done_callback(_starting.discard)


async def _prepared(sequence: Sequence, options: Mapping[str, Any], timeout: float) -> list[ModelEvent]:
    try:
        return await sequence.begin_anew(options, timeout=timeout)
    except BaseException:
        sequence.discard()
        raise


async def _begun(sequence: Sequence, timeout: float) -> list[ModelEvent] | LinkError:
    try:
        return await sequence.send(timeout=timeout)
    except LinkError as error:
        return error


async def _end(beginning: asyncio.Task[list[ModelEvent] | LinkError], sequence: Sequence) -> None:
    answer = await beginning
    if isinstance(answer, LinkError) and has_died(answer):
        sequence.abandon()
    else:
        sequence.discard()
