"""Attacks by second passes: far more speech to read again than the recogniser and its reader have time for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from streamer.base.limits import READER
from streamer.engine.waiting import LONGEST_WAIT_S
from streamer.testing.exact_speech import say
from workshop.attack.attack import STRIKE_LIMIT_S, Attack, PromiseBroken, Strike, Target, at_once, judged, start, text
from workshop.attack.raw_connection import BINARY, Ended, frame

FAMILY: Final = "second passes"
ENDPOINT: Final = {"silence": False, "longest_ms": 60_000}
FLUSH, STOP = text({"type": "flush"}), text({"type": "stop"})
PHRASE: Final = "this is read again "
FRAME: Final = 32_000
SESSIONS: Final = 5
ROUNDS: Final = 2
EACH_WORD: Final = PHRASE * 3


def _limit_s(segments: int) -> float:
    """Return the limit for a strike in which each session waits for so many second passes, one after another.

    Each has a limit of its own.
    """
    return STRIKE_LIMIT_S + segments * LONGEST_WAIT_S


async def ahead(target: Target, rng: random.Random) -> Strike:
    """Send segments of up to 50 s as fast as they are taken, in several sessions at a time."""
    return await _read_again(target, rng, PHRASE * rng.randrange(8, 22), live=False)


async def live(target: Target, rng: random.Random) -> Strike:
    """Send as much at once as a live session may be ahead, in several sessions at a time."""
    return await _read_again(target, rng, PHRASE * rng.randrange(3, 8), live=True)


async def flushes(target: Target, rng: random.Random) -> Strike:
    """End a segment after every word, so that each of them is read again."""
    return await _read_again(target, rng, EACH_WORD, live=False, often=True)


async def leaving(target: Target, rng: random.Random) -> Strike:
    """Go away while a long segment is read again."""

    async def one(_: int) -> str:
        connection = await target.websocket()
        try:
            await connection.send(start(**_options(rng)) + _frames(PHRASE * 20) + FLUSH)
            await connection.event()
        finally:
            connection.abort()
        return "left"

    return await at_once(rng.randrange(1, 2 * SESSIONS), one)


async def _read_again(target: Target, rng: random.Random, words: str, *, live: bool, often: bool = False) -> Strike:
    pieces = [word + " " for word in words.split()] if often else [words]
    content = b"".join(_frames(piece) + FLUSH for piece in pieces) * (1 if live or often else ROUNDS)
    spoken = " ".join(words.split() * (1 if live or often else ROUNDS))

    async def one(_: int) -> str:
        connection = await target.websocket()
        ended = await connection.until_closed(start(live=live, **_options(rng)) + content + STOP)
        _check(ended, spoken)
        return judged(ended, b"second passes")

    return await at_once(rng.randrange(1, SESSIONS + 1), one)


def _options(rng: random.Random) -> dict[str, Any]:
    """Return the options of a session that wants its words to be read again, by the recogniser or a reader."""
    return {"second_pass": rng.choice((True, READER)), "endpoint": ENDPOINT}


def _frames(words: str) -> bytes:
    audio = say(words.strip()).tobytes()
    return b"".join(frame(BINARY, audio[at : at + FRAME]) for at in range(0, len(audio), FRAME))


def _check(ended: Ended, spoken: str) -> None:
    """Raise PromiseBroken unless every word came, and every final says what has read it."""
    finals = [event for event in ended.events if event["type"] == "final"]
    if any(event.get("read_by") not in ("first_pass", "second_pass", "reader") for event in finals):
        raise PromiseBroken("a final does not say which pass has read it")
    if ended.code == 1000 and ended.text != spoken:
        raise PromiseBroken(f"{spoken[:200]!r} was recognised as {ended.text[:200]!r} with a second pass")


ATTACKS: Sequence[Attack] = (
    Attack("long segments are read again", FAMILY, ahead, limit_s=_limit_s(ROUNDS)),
    Attack("long live segments are read again", FAMILY, live, limit_s=_limit_s(1)),
    Attack("each word is read again", FAMILY, flushes, limit_s=_limit_s(len(EACH_WORD.split()))),
    Attack("clients leave while they are read again", FAMILY, leaving),
)
