"""An attack: hostile input that is repeated, and the promises that the service must keep nevertheless."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from streamer.testing.attack.raw_connection import CUT_OFF, Ended, RawConnection
from streamer.testing.attack.target import Target

STRIKE_LIMIT_S = 60.0
# The codes with which a websocket may be closed. 1002: an invalid frame. 1011 means a failure in the service.
CLOSES = (None, 1000, 1002, 1005, 1007, 1008, 1009, 1013, 4000, 4001, 4008, 4010, 4029)
# In foreign formats 1011 has other reasons too.
RIGHT_REASONS = ("NET-0001", "the client did not read")


class PromiseBroken(Exception):
    """The service broke a promise. The message is a sentence that says which one."""


class RecogniserFailed(Exception):
    """A session ended because its recogniser failed. That is right only if a fault was caused on purpose."""


@dataclass
class Strike:
    """The result of one run of an attack: the number of hostile inputs, and the answers of the service."""

    inputs: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def add(self, answer: str, inputs: int = 1) -> None:
        """Count this answer to this many inputs."""
        self.inputs += inputs
        self.answers[answer] += 1


@dataclass(frozen=True)
class Attack:
    """One way to attack. `strike` raises PromiseBroken; a connection that is cut off is not a broken promise."""

    name: str
    family: str
    strike: Callable[[Target, random.Random], Awaitable[Strike]]
    weight: int = 1  # how often it is chosen, relative to the others
    # Seconds between two runs, for attacks that affect every client while they last; 0: whenever it is chosen.
    every_s: float = 0.0
    limit_s: float = STRIKE_LIMIT_S  # every wait of the service has a limit, so a longer strike is a broken promise


async def at_once(number: int, act: Callable[[int], Awaitable[str]]) -> Strike:
    """Send this many inputs at the same time, and count their answers."""

    async def one(index: int) -> str:
        try:
            return await act(index)
        except CUT_OFF:
            return "cut off"

    strike = Strike()
    for answer in await asyncio.gather(*map(one, range(number))):
        strike.add(answer)
    return strike


async def unread(connection: RawConnection, content: bytes, enough: int, what: str) -> Strike:
    """Send `content` without end, and read nothing. The service must stop reading, so that it keeps little."""
    try:
        sent = await connection.stuff(content, enough, quiet_s=2.0)
    finally:
        connection.reset()
    if sent >= enough:
        raise PromiseBroken(f"the service read {what} without end from a client that reads nothing")
    strike = Strike()
    strike.add("read no further", max(1, sent // len(content)))
    return strike


def judged(ended: Ended, sent: bytes) -> str:
    """Return the end of a websocket over which `sent` was sent, as a word. Raises PromiseBroken or RecogniserFailed."""
    message = str(ended.events[-1].get("message")) if ended.error == "failed" else ended.reason
    if "recogniser failed" in message:
        raise RecogniserFailed
    if ended.code == 1011 and ended.reason.startswith(RIGHT_REASONS):
        return ended.reason
    # The service uses no codes from 3000 to 3999: such a code is an echo of the attacker's own.
    if (ended.code not in CLOSES and not 3000 <= (ended.code or 0) < 4000) or ended.error in ("failed", "internal"):
        why = ended.error or ended.reason or "without a reason"
        raise PromiseBroken(f"{sent[:200]!r} was closed with {ended.code}, {why}")
    return ended.error or ("cut off" if ended.code is None else f"close {ended.code}")


def refused(event: Mapping[str, object]) -> Strike:
    """Return the result if the session to attack was refused."""
    strike = Strike()
    strike.add(str(event.get("code")))
    return strike
