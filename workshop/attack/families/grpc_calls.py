"""Attacks over gRPC: wild messages and bytes, floods, broken HTTP/2, clients that leave, read nothing or guess keys."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import grpc  # type: ignore[import-untyped]

from streamer.bridge.grpc.messages import SERVICES, message_class
from streamer.testing.exact_speech import say
from workshop.attack import recordings
from workshop.attack.attack import Attack, PromiseBroken, RecogniserFailed, Strike, Target, at_once, mutated
from workshop.attack.raw_connection import CUT_OFF, RawConnection
from workshop.soak.foreign_session import plain

FAMILY: Final = "grpc"
RIVA: Final = "nvidia.riva.asr.RivaSpeechRecognition"
V1: Final = "google.cloud.speech.v1.Speech"
_WORDS: Final = "these words are mine"
_SPEECH: Final = say(_WORDS).tobytes()
_LINEAR: Final = {"encoding": 1, "sample_rate_hertz": 16_000, "language_code": "en-US"}
_LIMIT_S: Final = 45.0
# A wild request may be one that is served. UNAVAILABLE: the recogniser was killed, or there are no descriptors.
_RIGHT: Final = (
    "OK",
    "INVALID_ARGUMENT",
    "NOT_FOUND",  # an operation
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "OUT_OF_RANGE",
    "UNAUTHENTICATED",
)
_OWN: Final = ("DEADLINE_EXCEEDED", "CANCELLED")  # what the client itself has asked for
_NUMBERS: Final = (0, 1, -1, 2, 8, 9, 16_000, 192_001, 2**31 - 1, -(2**31), 20, 77)
_TEXTS: Final = (
    "",
    "en",
    "de-DE",
    "default",
    "\0",
    "\u202e",
    "a" * 60_000,
    "nan",
    "projects/p/locations/l",
    "\U0001f600",
)
_FLOATS: Final = (0.0, 4.0, -1.0, 1e38, float("inf"), float("nan"))
_OF_THE_CLIENT: Final = "Internal error from Core"  # it was sending when the service ended the call
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass
class Outcome:
    """How a call ended."""

    status: str
    details: str = ""
    responses: list[Any] = field(default_factory=list)

    @property
    def finals(self) -> str:
        """The transcripts of all finals."""
        results = (result for response in self.responses for result in response.results)
        return plain(" ".join(each.alternatives[0].transcript for each in results if each.is_final)).strip()

    def judged(self, sent: object) -> str:
        """Return the end as a word. Raise PromiseBroken or RecogniserFailed."""
        if "recogniser failed" in self.details:
            raise RecogniserFailed
        if self.status not in (*_RIGHT, *_OWN):
            raise PromiseBroken(f"{str(sent)[:200]} ended with {self.status}: {self.details[:200]}")
        if self.status == "INVALID_ARGUMENT" and len(self.details.split()) < 4:
            raise PromiseBroken(f"{str(sent)[:200]} was refused without a sentence: {self.details!r}")
        return self.status


class Channel:
    """A connection to the port, for one strike."""

    def __init__(self, target: Target, *more: tuple[str, int]) -> None:
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), *more)
        self._channel = grpc.aio.insecure_channel(f"{target.host}:{target.grpc_port}", options)
        self._key = target.hostile_key

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._channel.close()

    def call(self, service: str, method: str, requests: Any, limit_s: float = _LIMIT_S, metadata: Any = None) -> Any:
        """Begin a call with these requests, which are bytes."""
        described = next(each for each in SERVICES[service] if each.name == method)
        response = described.response  # of the service's own package, if it names none
        answer = message_class(response if "." in response else f"{service.rpartition('.')[0]}.{response}")
        begin = self._channel.stream_stream(f"/{service}/{method}", None, answer.FromString)
        if metadata is None:
            metadata = (("authorization", f"Bearer {self._key}"),)
        return begin(requests, timeout=limit_s, metadata=metadata)

    async def ask(self, service: str, method: str, requests: Iterable[bytes], **ways: Any) -> Outcome:
        """Make a call, and wait for its end."""
        call = self.call(service, method, _each(requests), **ways)
        responses: list[Any] = []
        try:
            async for response in call:
                responses.append(response)
        except grpc.aio.AioRpcError as error:
            if error.details() == _OF_THE_CLIENT:
                return Outcome("CANCELLED", "", responses)
            return Outcome(error.code().name, error.details() or "", responses)
        return Outcome("OK", "", responses)


async def _each(requests: Iterable[bytes]) -> AsyncIterator[bytes]:
    for request in requests:
        yield request
        await asyncio.sleep(0)


def _live(service: str, audio: bytes = _SPEECH, size: int = 6400, **streaming: Any) -> list[bytes]:
    """Return the requests of a client that does everything right."""
    kind = message_class(f"{service.rpartition('.')[0]}.StreamingRecognizeRequest")
    first = kind(streaming_config={"config": _LINEAR, **streaming})
    pieces = [kind(audio_content=audio[place : place + size]) for place in range(0, len(audio), size)]
    return [each.SerializeToString() for each in (first, *pieces)]


def _wild(rng: random.Random, message: Any, depth: int = 0) -> Any:
    """Fill some fields of a message with any values."""
    for described in message.DESCRIPTOR.fields:
        if rng.random() < (0.4 if depth else 0.1):
            continue
        many = range(rng.choice((0, 1, 2, 300)) if described.is_repeated and rng.random() < 0.2 else 1)
        with suppress(TypeError, ValueError):  # a value that this field cannot have
            for _ in many:
                _put(rng, message, described, depth)
    return message


def _put(rng: random.Random, message: Any, described: Any, depth: int) -> None:
    place = getattr(message, described.name)
    if described.message_type is not None:
        if described.message_type.GetOptions().map_entry:
            place[rng.choice(_TEXTS)] = rng.choice((*_TEXTS, "true"))
        else:
            part = place.add() if described.is_repeated else place
            part.SetInParent()
            _wild(rng, part, depth + 1)
        return
    kinds = {"string": _TEXTS, "float": _FLOATS, "bytes": (b"", b"RIFF", rng.randbytes(700), _SPEECH)}
    values: Sequence[Any] = _NUMBERS
    if described.type == described.TYPE_STRING:
        values = kinds["string"]
    elif described.type == described.TYPE_FLOAT:
        values = kinds["float"]
    elif described.type == described.TYPE_BYTES:
        values = kinds["bytes"]
    elif described.type == described.TYPE_BOOL:
        values = (True, False)
    if described.is_repeated:
        place.append(rng.choice(values))
    else:
        setattr(message, described.name, rng.choice(values))


def _wild_requests(rng: random.Random) -> tuple[str, str, list[bytes]]:
    service = rng.choice(list(SERVICES))
    method = rng.choice(SERVICES[service])
    kind = message_class(f"{service.rpartition('.')[0]}.{method.request}")
    number = rng.choice((1, 2, 5)) if method.streams else 1
    return service, method.name, [_wild(rng, kind()).SerializeToString() for _ in range(number)]


async def wild_messages(target: Target, rng: random.Random) -> Strike:
    """Call every method with any value in any field. A refusal must have a sentence."""

    async def one(_: int) -> str:
        service, method, requests = _wild_requests(rng)
        return (await channel.ask(service, method, requests)).judged(requests)

    async with Channel(target) as channel:
        return await at_once(12, one)


async def wild_bytes(target: Target, rng: random.Random) -> Strike:
    """Send messages with bytes changed, left out and doubled, and bytes that are none."""

    async def one(_: int) -> str:
        service, method, requests = _wild_requests(rng)
        requests = [
            mutated(each, rng) if rng.random() < 0.8 else rng.randbytes(rng.choice((1, 60))) for each in requests
        ]
        return (await channel.ask(service, method, requests)).judged(requests)

    async with Channel(target) as channel:
        return await at_once(12, one)


async def floods(target: Target, rng: random.Random) -> Strike:
    """Send floods of empty requests, tiny audio and ends of utterances: every word of the speech must arrive."""
    kind = message_class("nvidia.riva.asr.StreamingRecognizeRequest")
    empty, end = b"", kind(runtime_config={"force_eou": "true"}).SerializeToString()
    first, *speech = _live(RIVA, size=rng.choice((1, 7, 640)) * 2)
    noise = [rng.choice((empty, end if rng.random() < 0.02 else empty)) for _ in range(rng.choice((50, 2000)))]
    async with Channel(target) as channel:
        # The ends come after the speech: within a word they would cut it.
        outcome = await channel.ask(RIVA, "StreamingRecognize", [first, *[empty] * 200, *speech, *noise])
    strike = Strike()
    strike.add(outcome.judged("a flood"), len(speech) + len(noise))
    if outcome.status == "OK" and outcome.finals != _WORDS:
        raise PromiseBroken(f"in a flood of requests, {_WORDS!r} was recognised as {outcome.finals!r}")
    return strike


async def containers(target: Target, rng: random.Random) -> Strike:
    """Send damaged recordings, random bytes and bombs, live and as a whole. They must be recognised or refused."""
    bodies = [recordings.wild_recording(rng) for _ in range(3)] + [rng.choice(recordings.bombs(rng))]
    live, whole = (
        message_class(f"nvidia.riva.asr.{name}") for name in ("StreamingRecognizeRequest", "RecognizeRequest")
    )

    async def one(number: int) -> str:
        body, config = bodies[number][:9_000_000], {"enable_separate_recognition_per_channel": rng.random() < 0.5}
        if rng.random() < 0.5:
            request = whole(config={"language_code": "en", **config}, audio=body).SerializeToString()
            outcome = await channel.ask(RIVA, "Recognize", [request])
        else:
            size = rng.choice((100, 4000, 60_000))
            first = live(streaming_config={"config": {"language_code": "en", **config}})
            pieces = (live(audio_content=body[place : place + size]) for place in range(0, len(body), size))
            requests = (each.SerializeToString() for each in (first, *pieces))
            outcome = await channel.ask(RIVA, "StreamingRecognize", requests)
        recordings.check_decoders(target)
        return outcome.judged("a recording")

    async with Channel(target) as channel:
        return await at_once(len(bodies), one)


async def too_large(target: Target, rng: random.Random) -> Strike:
    """Send a request that is larger than allowed, and one that claims to be."""
    kind = message_class("google.cloud.speech.v1.RecognizeRequest")
    request = kind(config=_LINEAR, audio={"content": bytes(rng.choice((11, 30)) << 20)}).SerializeToString()
    async with Channel(target) as channel:
        outcome = await channel.ask(V1, "Recognize", [request])
    # The client may still be sending when it is refused, and then it does not say why its call has ended.
    if outcome.status not in ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "CANCELLED"):
        raise PromiseBroken(f"a request of {len(request)} bytes ended with {outcome.status}")
    strike = Strike()
    strike.add(outcome.status)
    return strike


async def gone(target: Target, rng: random.Random) -> Strike:
    """Cancel calls at any point, let their deadlines pass, and close connections under them."""

    async def one(_: int) -> str:
        requests = _live(rng.choice((RIVA, V1)), interim_results=True)
        service = RIVA if rng.random() < 0.5 else V1
        async with Channel(target) as channel:
            call = channel.call(
                service, "StreamingRecognize", _stopping(requests, rng), rng.choice((0.05, 0.5, _LIMIT_S))
            )
            with suppress(grpc.RpcError, asyncio.TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(call.read(), rng.random())
            if rng.random() < 0.7:
                call.cancel()
        return "went away"

    return await at_once(10, one)


async def _stopping(requests: Sequence[bytes], rng: random.Random) -> AsyncIterator[bytes]:
    """Yield some of the requests, and then keep the call open."""
    for request in requests[: rng.randrange(len(requests) + 1)]:
        yield request
        await asyncio.sleep(0)
    await asyncio.sleep(_LIMIT_S)


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send audio without end, and read no result. The service must end the session."""
    audio = say("words that nobody reads " * 10).tobytes()

    async def endless() -> AsyncIterator[bytes]:
        first, *rest = _live(V1, audio, len(audio), interim_results=True)
        yield first
        while True:
            yield rest[0]
            await asyncio.sleep(0)

    async with Channel(target, ("grpc.http2.bdp_probe", 0)) as channel:
        call = channel.call(V1, "StreamingRecognize", endless(), 8.0)
        await asyncio.sleep(rng.uniform(1, 6))
        call.cancel()
    strike = Strike()
    strike.add("went away")
    return strike


async def guessed_keys(target: Target, rng: random.Random) -> Strike:
    """Call with guessed keys in each place where a key may be. Nothing may be told or read."""

    async def one(_: int) -> str:
        guess = rng.choice((target.hostile_key[:-1], "", "a" * 3000, "key,key", target.hostile_key.upper()))
        place = rng.choice(("authorization", "x-goog-api-key", "api-key", "cookie"))
        metadata = ((place, f"Bearer {guess}" if place == "authorization" else guess),)
        service, method, requests = _wild_requests(rng)
        outcome = await channel.ask(service, method, requests, metadata=metadata)
        right = ("UNAUTHENTICATED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED")
        if outcome.status not in right or outcome.responses:
            raise PromiseBroken(f"the key {metadata[0]} was answered with {outcome.status}")
        return outcome.status

    async with Channel(target) as channel:
        return await at_once(10, one)


async def broken_http2(target: Target, rng: random.Random) -> Strike:
    """Send what is no HTTP/2, frames of any kind, floods of resets, pings and settings; go away at any point."""

    def frame(kind: int, flags: int, stream: int, content: bytes, length: int | None = None) -> bytes:
        size = len(content) if length is None else length
        return size.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content

    def wild() -> bytes:
        content = rng.randbytes(rng.choice((0, 4, 8, 200)))
        length = rng.choice((None, None, None, 1 << 23, 0))
        return frame(rng.randrange(12), rng.randrange(256), rng.choice((0, 1, 3, 2**31 - 1)), content, length)

    settings = frame(4, 0, 0, b"")
    # A head with nothing but bytes of the static table: method POST, scheme http, path /.
    head = frame(1, 4, 1, b"\x83\x86\x84")
    resets = b"".join(frame(1, 4, n, b"\x83\x86\x84") + frame(3, 0, n, bytes(4)) for n in range(1, 2001, 2))
    contents = (
        rng.randbytes(rng.choice((1, 24, 4000))),
        target.request(),
        b"\x16\x03\x01" + rng.randbytes(300),
        _PREFACE[: rng.randrange(len(_PREFACE))],
        _PREFACE + settings + b"".join(wild() for _ in range(rng.choice((1, 5, 50)))),
        _PREFACE + settings + head + frame(0, 0, 1, bytes(5)) * 500,
        _PREFACE + settings + resets,
        _PREFACE + settings + frame(6, 0, 0, bytes(8)) * 5000,
        _PREFACE + settings * 5000,
        _PREFACE + settings + frame(1, 0, 1, b"\x83") + frame(9, 0, 1, b"\x86" * 100) * 2000,  # a head without an end
    )

    async def one(number: int) -> str:
        connection = await RawConnection.open(target.host, target.grpc_port)
        try:
            await connection.send(contents[number])
            await connection.over(rng.random())
        finally:
            (connection.reset if rng.random() < 0.5 else connection.abort)()
        return "went away"

    return await at_once(len(contents), one)


async def many_connections(target: Target, rng: random.Random) -> Strike:
    """Open more connections than the port takes, and say nothing. Others must still be served after that."""
    opened: list[RawConnection] = []
    strike = Strike()
    try:
        with suppress(*CUT_OFF):
            for _ in range(rng.choice((50, 300))):
                opened.append(await RawConnection.open(target.host, target.grpc_port))
        await asyncio.sleep(rng.random())
    finally:
        for connection in opened:
            connection.abort()
    strike.add("went away", len(opened))
    return strike


ATTACKS: Sequence[Attack] = (
    Attack("wild messages over gRPC", FAMILY, wild_messages, 4),
    Attack("wild bytes over gRPC", FAMILY, wild_bytes, 3),
    Attack("floods of requests", FAMILY, floods, 2),
    Attack("hostile containers over gRPC", FAMILY, containers, 2),
    Attack("requests that are too large", FAMILY, too_large),
    Attack("callers that go away", FAMILY, gone, 2),
    Attack("calls that are not read", FAMILY, unread),
    Attack("guessed keys over gRPC", FAMILY, guessed_keys),
    Attack("broken HTTP/2", FAMILY, broken_http2, 2),
    Attack("more connections than there may be", FAMILY, many_connections),
)
