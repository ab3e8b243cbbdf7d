"""Attacks on the sessions and keys of others, and by more sessions than are allowed."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import Any, Final

from streamer.testing.exact_speech import say
from workshop.attack.attack import Attack, PromiseBroken, Strike, Target, at_once, judged, refused, start, text
from workshop.attack.raw_connection import BINARY, frame

FAMILY: Final = "sessions"
STOP: Final = text({"type": "stop"})


async def guessed_keys(target: Target, rng: random.Random) -> Strike:
    """Send invalid keys in all places where a key may be. They must open neither pages nor websockets."""
    strike = Strike()
    for _ in range(20):
        guess = _guess(target.hostile_key, rng)
        fields: list[str] = []
        path = "/v1/stream"
        way = rng.randrange(4)
        if way == 0:
            fields = [f"Authorization: Bearer {guess}"]
        elif way == 1:
            fields = [f"Sec-WebSocket-Protocol: streamer, streamer.key.{guess}"]
        elif way == 2:
            path = f"/v1/stream?key={guess}"
        sent = target.request(path, "", *fields)
        if rng.random() < 0.5:
            sent = sent.replace(b"Upgrade: websocket\r\n", b"")
        connection = await target.connect()
        try:
            await connection.send(sent)
            status, _ = await connection.head()
            if status == 101:
                ended = await connection.until_closed(start())
                if any(event["type"] != "error" for event in ended.events):
                    raise PromiseBroken(f"the invalid key {guess!r} opened a session")
                strike.add(judged(ended, guess.encode()))
            elif status in (400, 401, 503):
                strike.add(f"HTTP {status}")
            else:
                raise PromiseBroken(f"the invalid key {guess!r} was answered with {status}")
        finally:
            connection.abort()
    return strike


async def guessed_tokens(target: Target, rng: random.Random) -> Strike:
    """Resume with invalid tokens, and with tokens of another key. Both must be unknown."""
    strike = Strike()
    for _ in range(10):
        token = rng.choice([*target.tokens, secrets.token_urlsafe(24), "", "a" * 50_000, "\ud800"])
        connection = await target.websocket()
        resume = start(resume={"token": token, "after": rng.choice((0, 1, 2**53))})
        ended = await connection.until_closed(resume + STOP)
        if any(event["type"] != "error" for event in ended.events):
            raise PromiseBroken("a session was resumed with a token of another key")
        if ended.code is not None and ended.error not in ("unknown_token", "too_many_sessions", "full", "not_ready"):
            raise PromiseBroken(f"an invalid token was answered with {ended.error!r}")
        strike.add(judged(ended, b"token"))
    return strike


async def replayed_tokens(target: Target, rng: random.Random) -> Strike:
    """Use the token of an own session in altered forms, and again after its end. All of that must be unknown."""
    connection, ready = await target.session()
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    strike, token = Strike(), str(ready["token"])
    altered = (token[:-1], token + "=", token + " ", f"{token}\0", token.swapcase(), token * 2)
    await _expect_unknown(target, strike, rng.sample(altered, 3), rng)
    words = "said before the end"
    ended = await connection.until_closed(frame(BINARY, say(words).tobytes()) + STOP)
    if ended.code == 1000 and ended.text != words:
        raise PromiseBroken(f"{words!r} was recognised as {ended.text!r} beside altered tokens")
    strike.add(judged(ended, b"replayed"))
    if ended.code == 1000:
        await _expect_unknown(target, strike, [token] * 5, rng)
    return strike


async def _expect_unknown(target: Target, strike: Strike, tokens: Sequence[str], rng: random.Random) -> None:
    for token in tokens:
        connection = await target.websocket()
        resume = start(resume={"token": token, "after": rng.choice((0, 1, 5, 2**31, 2**53))})
        ended = await connection.until_closed(resume + STOP)
        if any(event["type"] != "error" for event in ended.events):
            raise PromiseBroken("a session was resumed with an altered token, or after its end")
        strike.add(judged(ended, b"token"))


async def takeovers(target: Target, rng: random.Random) -> Strike:
    """Take a session over by several clients again and again. It must keep one client and lose no word."""
    words = "taken over again"
    connection, ready = await target.session()
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    audio, at = say(words).tobytes(), 0
    strike = Strike()
    for _ in range(rng.randrange(3, 12)):
        await connection.send(frame(BINARY, audio[at : at + 6400]))
        others = [await target.websocket() for _ in range(rng.randrange(1, 4))]
        for other in others:
            await other.send(start(resume={"token": ready["token"], "after": 1}))
        events = [event for event in [await other.event() for other in others] if event is not None]
        if rng.random() < 0.5:
            connection.abort()
        else:
            await connection.ended()
        for other in others[:-1]:
            other.abort()
        connection = others[-1]
        resumed = [event for event in events if event["type"] == "ready"]
        strike.add("ready" if resumed else "refused", len(others))
        if not resumed or events[-1]["type"] != "ready":
            connection.abort()
            return strike
        # How much arrived over the previous connection, at two bytes for each sample.
        at = events[-1]["from_sample"] * 2
    ended = await connection.until_closed(frame(BINARY, audio[at:]) + STOP)
    if ended.code == 1000 and ended.text != words:
        raise PromiseBroken(f"{words!r} was recognised as {ended.text!r} after many takeovers")
    strike.add(judged(ended, b"takeovers"))
    return strike


async def disagreeing(target: Target, rng: random.Random) -> Strike:
    """Resume from another sample than `from_sample`. The session must go on."""
    connection, ready = await target.session()
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    strike, at = Strike(), 0
    for _ in range(5):
        await connection.send(frame(BINARY, bytes(2 * rng.randrange(20_000))))
        connection.abort()
        connection = await target.websocket()
        await connection.send(start(resume={"token": ready["token"], "after": 1}))
        event = await connection.event()
        if event is None or event["type"] != "ready":
            connection.abort()
            strike.add("cut off" if event is None else str(event["code"]))
            return strike
        if event["from_sample"] < at:
            raise PromiseBroken(f"`from_sample` went back from {at} to {event['from_sample']}")
        at = event["from_sample"]
        strike.add("ready")
    ended = await connection.until_closed(frame(BINARY, bytes(6400)) + STOP)
    heard_ms = next((event["audio_ms"] for event in ended.events if event["type"] == "done"), None)
    if ended.code == 1000 and heard_ms != at // 16 + 200:
        raise PromiseBroken(f"`audio_ms` is {heard_ms} after {at} samples and 200 ms more")
    strike.add(judged(ended, b"disagreeing"))
    return strike


async def parked(target: Target, rng: random.Random) -> Strike:
    """Vanish from sessions, up to the limit of the key, and never return. The service must end them."""

    async def one(number: int) -> str:
        connection, event = await target.session(live=True)
        await connection.send(frame(BINARY, bytes(6400)))
        connection.reset()
        return str(event.get("code", "ready"))

    return await at_once(rng.randrange(5, 40), one)


async def waiting(target: Target, rng: random.Random) -> Strike:
    """Open websockets and start no session. They must be closed in time, and so must those beyond the limit."""

    async def one(number: int) -> str:
        connection = await target.websocket()
        return judged(await connection.ended(), b"nothing")

    return await at_once(rng.randrange(10, 120), one)


async def too_many(target: Target, rng: random.Random) -> Strike:
    """Start more sessions than a key may have, with many channels. They must be refused before they use resources."""
    options: dict[str, Any] = {"channels": 8, "multichannel": True} if rng.random() < 0.5 else {}

    async def one(number: int) -> str:
        connection = await target.websocket()
        return judged(await connection.until_closed(start(**options) + frame(BINARY, bytes(32_000)) + STOP), b"many")

    return await at_once(rng.randrange(10, 60), one)


def _guess(key: str, rng: random.Random) -> str:
    """Return an invalid key, similar to a valid one or not."""
    letters = list(key)
    if rng.random() < 0.5:
        place = rng.randrange(len(letters))
        letters[place] = "A" if letters[place] != "A" else "B"
        return "".join(letters)
    return rng.choice(("x", "streamer_", key[:-1], key + "A", key.upper(), "%00" + key, secrets.token_urlsafe(32)))


ATTACKS: Sequence[Attack] = (
    Attack("guessed keys", FAMILY, guessed_keys, 2),
    Attack("tokens of others", FAMILY, guessed_tokens, 2),
    Attack("tokens altered, and replayed", FAMILY, replayed_tokens, 2),
    Attack("takeovers without end", FAMILY, takeovers, 2),
    Attack("resumes that disagree", FAMILY, disagreeing, 2),
    Attack("sessions that nobody comes back to", FAMILY, parked),
    Attack("websockets that start nothing", FAMILY, waiting),
    Attack("more sessions than a key may have", FAMILY, too_many),
)
