"""Attacks by calls in Twilio's format and by webhooks: wild messages, guessed signatures, hostile receivers."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from streamer.bridge.access.call_signatures import SETTINGS, SIGNATURE
from streamer.testing.exact_speech import say, silence
from streamer.wire.dialects import twilio
from streamer.wire.dialects.client_values import command_of
from workshop.attack import attack
from workshop.attack.attack import (
    ODD,
    Attack,
    PromiseBroken,
    Strike,
    Target,
    at_once,
    judged,
    start,
    text,
    wild_json,
    wild_value,
)
from workshop.attack.raw_connection import BINARY, frame
from workshop.soak.calls import CHUNK, STOP, begin, media, mulaw
from workshop.soak.foreign_session import plain
from workshop.soak.webhook_receiver import Delivery, WebhookReceiver

FAMILY: Final = "calls"
_WORDS: Final = "these words are mine"
_SPEECH: Final = mulaw(say(_WORDS))
_NATIVE: Final = say(_WORDS).tobytes() + silence(300).tobytes()
_NAMES: Final = (
    "event",
    "media",
    "start",
    "track",
    "payload",
    "timestamp",
    "customParameters",
    "mediaFormat",
    "tracks",
)
# How long a webhook may take to deliver what a session has said, on a busy machine.
_PATIENCE_S: Final = 40.0


def _speech(times: bool = True) -> list[str]:
    """Return the messages of the speech, with their times or without them."""
    chunks = [_SPEECH[place : place + CHUNK] for place in range(0, len(_SPEECH), CHUNK)]
    messages = [media(chunk, 20 * number) for number, chunk in enumerate(chunks)]
    if times:
        return messages
    return [json.dumps({"event": "media", "media": {"payload": base64.b64encode(chunk).decode()}}) for chunk in chunks]


async def wild_messages(target: Target, rng: random.Random) -> Strike:
    """Send wild messages among speech. If the call comes to its end, its webhook must get every word, and no other."""
    speech, intact = _speech(times=rng.random() < 0.5), rng.random() < 0.8
    for _ in range(rng.choice((5, 50, 200))):
        wild = wild_json(rng, ("mark", "dtmf", "clear"), _NAMES).replace('"type"', '"event"')
        known = any(word in wild for word in ('"stop"', '"start"', '"media"'))
        # What is no object ends the call.
        if not known and not (intact and command_of(wild) is None):
            speech.insert(rng.randrange(len(speech) + 1), wild)
    async with WebhookReceiver() as receiver:
        first = begin(call="\ud800" if rng.random() < 0.2 else "CA1", streamer_webhook=receiver.url, colour="\u202e")
        connection = await target.websocket(path=twilio.PATH)
        ended = await connection.until_closed(b"".join(map(text, [first, *speech, STOP])))
        strike = Strike()
        strike.add(judged(ended, b"wild messages"), len(speech))
        if ended.code == 1000:
            _check(await receiver.until_ended(_PATIENCE_S))
    return strike


async def wild_times(target: Target, rng: random.Random) -> Strike:
    """Send chunks of any size at any time, in directions that there are not. The call must come to its end."""

    async def one(_: int) -> str:
        tracks = rng.choice((("inbound",), ("inbound", "outbound"), ("sideways",), ()))
        messages = [begin(*tracks)]
        for number in range(rng.choice((3, 40))):
            at_ms = rng.choice((20 * number, rng.randrange(2000), rng.randrange(1 << 40), 0))
            chunk = bytes([rng.randrange(256)]) * rng.choice((0, 1, 159, 160, 8000))
            messages.append(media(chunk, at_ms, rng.choice(("inbound", "outbound", "sideways"))))
        messages += rng.choices([json.dumps(wild_value(rng, _NAMES)) for _ in range(3)], k=rng.randrange(2))
        sent = b"".join(map(text, [*messages, STOP]))
        connection = await target.websocket(path=twilio.PATH)
        return judged(await connection.until_closed(sent), sent)

    return await at_once(4, one)


async def wild_beginnings(target: Target, rng: random.Random) -> Strike:
    """Describe a stream with any value in any place."""

    async def one(_: int) -> str:
        content: dict[str, Any] = json.loads(begin(streamer_step_ms="160"))
        part = content["start"] if rng.random() < 0.6 else content["start"]["mediaFormat"]
        for name in rng.sample(sorted(part), k=rng.randrange(1, len(part))):
            part[name] = wild_value(rng, _NAMES)
        if rng.random() < 0.5:
            content["start"]["customParameters"] = {
                f"streamer_{rng.choice(('language', 'hotwords', 'webhook', 'endpoint'))}": rng.choice(ODD)
            }
        sent = b"".join(map(text, [content, *_speech()[:5], STOP]))
        connection = await target.websocket(path=twilio.PATH)
        return judged(await connection.until_closed(sent), sent)

    return await at_once(6, one)


async def gone(target: Target, rng: random.Random) -> Strike:
    """Hang up at any point, also within a message."""
    content = target.request(twilio.PATH) + b"".join(map(text, [begin(), *_speech(), STOP]))
    return await at_once(6, lambda _: attack.leave(target, rng, content))


async def guessed_signatures(target: Target, rng: random.Random) -> Strike:
    """Send signatures that are made with guessed tokens, or for other addresses. They must be refused."""

    async def one(_: int) -> str:
        host = rng.choice((f"{target.host}:{target.port}", "voice.example.org", ""))
        token = rng.choice((b"", b"0" * 32, target.hostile_key.encode(), rng.randbytes(32)))
        algorithm = rng.choice(("sha1", "sha256"))
        made = hmac.new(token, f"wss://{host}{twilio.PATH}".encode(), algorithm).digest()
        given = rng.choice((base64.b64encode(made).decode(), made.hex(), "", "=" * rng.choice((1, 3000))))
        settings = rng.choice(("", "algorithm=HMAC_SHA256", "algorithm=none", "algorithm=" * 50))
        fields = (f"{SIGNATURE}: {given}", f"{SETTINGS}: {settings}", "X-Forwarded-Host: voice.example.org")
        connection = await target.connect()
        try:
            await connection.send(target.request(twilio.PATH, "", *fields))
            status = (await connection.head())[0]
        finally:
            connection.abort()
        if status != 401:
            raise PromiseBroken(f"a guessed signature {given[:80]!r} was answered with {status}")
        return f"HTTP {status}"

    return await at_once(10, one)


async def hostile_receivers(target: Target, rng: random.Random) -> Strike:
    """Let webhooks deliver to receivers that are slow, silent, endless or gone. No session may notice."""
    release = asyncio.Event()
    own = f"http://{target.host}:{target.port}"

    async def answer(_: Delivery, writer: asyncio.StreamWriter) -> None:
        kind = rng.choice(("silent", "endless", "slow", "wild", "long", "redirect", "gone", "error"))
        with suppress(ConnectionError):
            while kind in ("silent", "endless", "slow") and not release.is_set():
                if kind != "silent":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" if kind == "endless" else b"H")
                    await writer.drain()
                await asyncio.sleep(0.01 if kind == "endless" else 0.3)
            answers = {
                "wild": rng.randbytes(rng.choice((1, 100, 5000))),
                "long": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * rng.choice((1, 101, 5000)) + b"a" * 70_000,
                "redirect": f"HTTP/1.1 307 There\r\nLocation: {own}/v1/stream\r\n\r\n".encode(),
                "gone": b"HTTP/1.1 410 Gone\r\n\r\n",
                "error": b"HTTP/1.1 500 No\r\nContent-Length: 99999999999\r\n\r\n",
            }
            writer.write(answers.get(kind, b""))

    async def one(address: str) -> str:
        connection, first = await target.session(webhook=address)
        if first.get("type") != "ready":
            connection.abort()
            return str(first.get("code"))
        sent = frame(BINARY, _NATIVE) + text({"type": "stop"})
        ended = await connection.until_closed(sent)
        told = judged(ended, sent)
        if ended.code == 1000 and plain(ended.text) != _WORDS:
            raise PromiseBroken(f"beside the webhook {address}, {_WORDS!r} was recognised as {ended.text!r}")
        return told

    async with WebhookReceiver(answer) as receiver:
        closed = f"http://127.0.0.1:{rng.choice((1, 9))}/"
        addresses = (receiver.url, receiver.url, closed, f"{own}/v1/transcribe", f"{own}/metrics", "http://a.invalid/")
        strike = await at_once(len(addresses), lambda number: one(addresses[number]))
        release.set()
    return strike


async def wild_addresses(target: Target, rng: random.Random) -> Strike:
    """Name anything as the address of a webhook."""

    async def one(_: int) -> str:
        odd = ("http://", "https://\udcff/", "http://[", "http://a:b@c/", "http://a\r\nb/", "http://a/" + "b" * 3000)
        sent = start(webhook=rng.choice((*odd, "http://\u2028", "file:///etc/passwd", "http://1:0/", *ODD)))
        sent += text({"type": "stop"})
        connection = await target.websocket()
        return judged(await connection.until_closed(sent), sent)

    return await at_once(8, one)


def _check(events: Sequence[dict[str, Any]]) -> None:
    """Raise PromiseBroken unless a webhook got each event once and in order, and all words."""
    numbers = [event["data"]["number"] for event in events]
    heard = plain(" ".join(event["data"]["text"] for event in events if event["type"] == "final"))
    if numbers != list(range(1, len(numbers) + 1)) or not events or events[-1]["type"] != "ended":
        raise PromiseBroken(f"a webhook got events with the numbers {numbers}")
    if events[-1]["data"]["reason"] == "done" and heard != _WORDS:
        raise PromiseBroken(f"a webhook got {heard!r} instead of {_WORDS!r}")


ATTACKS: Sequence[Attack] = (
    Attack("wild messages in a call", FAMILY, wild_messages, 3),
    Attack("wild times in a call", FAMILY, wild_times, 3),
    Attack("wild descriptions of a stream", FAMILY, wild_beginnings, 2),
    Attack("callers that hang up", FAMILY, gone, 2),
    Attack("guessed signatures", FAMILY, guessed_signatures),
    Attack("hostile receivers of webhooks", FAMILY, hostile_receivers, 2),
    Attack("wild addresses of webhooks", FAMILY, wild_addresses),
)
