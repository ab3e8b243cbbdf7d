"""The instances of a model at one Triton: which of them are dead, and how a sequence begins at another one.

Each is a process. One that has died or was stopped is not started again by Triton, which says so of every request that
goes there, and still gives it new sequences: even before all others, since its slots are free.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamer.triton.link import Link, LinkError, Sequence

_DEAD: Final = re.compile(r"Stub process '([^']*)' is not healthy")
MOST_AT_ONCE: Final = 256
_starting: set[asyncio.Task[None]] = set()  # sequences that nobody needs any more, until they are ended


def has_died(error: LinkError) -> bool:
    """Whether a request failed because the process that it went to has."""
    return _DEAD.search(error.message) is not None


class Instances:
    """Known by their names, from what they answered."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self._known: set[str] = set()

    def answered(self, names: Iterable[str]) -> None:
        """These live."""
        self._known.update(names)
        self.dead.difference_update(names)

    def failed(self, message: str) -> bool:
        """A request failed with these words; True if that tells the death of one, and others are known to live."""
        found = _DEAD.search(message)
        if found is None:
            return False
        self.dead.add(found[1])
        self._known.add(found[1])
        return self.dead < self._known


async def begin_past_the_dead(
    link: Link, options: Mapping[str, Any], taken: int, timeout: float
) -> tuple[Sequence, list[dict[str, Any]]]:
    """A sequence at an instance that lives, and its first events; LinkError if there is none.

    Triton gives a sequence the lowest free slot, whichever instance that is of: where `taken` are held by those that
    live, one more than that gets past those of the dead. Those that fail are not ended, so that they hold their slots
    until Triton forgets them, and the next ones get past the sooner.
    """
    sequences = [link.sequence(options) for _ in range(min(taken + 2, MOST_AT_ONCE))]
    asked = {asyncio.create_task(_begun(sequence, timeout)): sequence for sequence in sequences}
    waiting, error = set(asked), LinkError("unavailable", "no instance lives")
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer = task.result()
                if not isinstance(answer, LinkError):
                    return asked.pop(task), answer
                error = answer
        raise error
    finally:
        for task, sequence in asked.items():
            ending = asyncio.create_task(_end(task, sequence))
            _starting.add(ending)
            ending.add_done_callback(_starting.discard)


async def _begun(sequence: Sequence, timeout: float) -> list[dict[str, Any]] | LinkError:
    try:
        return await sequence.send(timeout=timeout)
    except LinkError as error:
        return error


async def _end(beginning: asyncio.Task[list[dict[str, Any]] | LinkError], sequence: Sequence) -> None:
    answer = await beginning
    if isinstance(answer, LinkError) and has_died(answer):
        sequence.abandon()
    else:
        sequence.discard()
