"""What an attack is: something hostile that is done again and again, and what the service promises all the same."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from streamer.testing.attack.raw_connection import CUT_OFF, Ended
from streamer.testing.attack.target import Target

STRIKE_LIMIT_S = 60.0
# How a websocket may be closed. 1002: a frame that is none. 1011 is for what failed in the service.
CLOSES = (None, 1000, 1002, 1005, 1007, 1008, 1009, 1013, 4000, 4001, 4008, 4010, 4029)


class PromiseBroken(Exception):
    """The service did what it promises not to do; the message is a sentence."""


class RecogniserFailed(Exception):
    """A session ended because nothing recognised it any more: only right where that was broken on purpose."""


@dataclass
class Strike:
    """What came of doing it once: how many hostile inputs there were, and what the service answered."""

    inputs: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def add(self, answer: str, inputs: int = 1) -> None:
        """So many inputs got this answer."""
        self.inputs += inputs
        self.answers[answer] += 1


@dataclass(frozen=True)
class Attack:
    """One way to attack. `strike` raises PromiseBroken; connections that are cut off are none of its failures."""

    name: str
    family: str
    strike: Callable[[Target, random.Random], Awaitable[Strike]]
    weight: int = 1  # how often it comes, beside the others
    # Seconds from one time to the next, for what everybody feels while it lasts; 0: whenever it is its turn.
    every_s: float = 0.0
    limit_s: float = STRIKE_LIMIT_S  # every wait of the service is bounded: a strike that takes longer broke that


async def at_once(number: int, act: Callable[[int], Awaitable[str]]) -> Strike:
    """So many inputs at the same time, each with its answer."""

    async def one(index: int) -> str:
        try:
            return await act(index)
        except CUT_OFF:
            return "cut off"

    strike = Strike()
    for answer in await asyncio.gather(*map(one, range(number))):
        strike.add(answer)
    return strike


def judged(ended: Ended, sent: bytes) -> str:
    """How a websocket ended at which this was said, in a word; PromiseBroken, RecogniserFailed."""
    if ended.error == "failed" and "recogniser failed" in str(ended.events[-1].get("message")):
        raise RecogniserFailed
    # Codes from 3000 to 3999 are nobody's: one that comes back was the attacker's own.
    if (ended.code not in CLOSES and not 3000 <= (ended.code or 0) < 4000) or ended.error in ("failed", "internal"):
        raise PromiseBroken(f"{sent[:200]!r} was closed with {ended.code}, {ended.error or 'without an error'}")
    return ended.error or ("cut off" if ended.code is None else f"close {ended.code}")


def refused(event: Mapping[str, object]) -> Strike:
    """There was no session to attack."""
    strike = Strike()
    strike.add(str(event.get("code")))
    return strike
