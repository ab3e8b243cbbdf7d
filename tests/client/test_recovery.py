"""How a lost session goes on, with services that do what the real one hardly ever does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

import streamer.client.connection
import streamer.client.recovery
import streamer.client.session
from streamer.client import Session, SessionError, connect

SECOND = 32_000  # bytes
Message = dict[str, Any]
Life = Callable[["ServedConnection"], Awaitable[None]]


class ServedConnection:
    """One connection of a service: what has arrived, and methods to answer."""

    def __init__(self, websocket: ServerConnection, start: Message) -> None:
        self.websocket = websocket
        self.start = start
        self.audio = b""
        self.texts: list[str] = []
        self.said = 0

    async def say(self, kind: str, **content: Any) -> None:
        """Send a numbered message."""
        self.said += 1
        await self.websocket.send(json.dumps({"type": kind, "n": self.said, **content}))

    async def ready(self) -> None:
        """Open the session."""
        await self.say("ready", token="secret", from_sample=0)

    async def error(self, code: str, close: int) -> None:
        """Refuse the session or end it."""
        await self.say("error", code=code, message=f"It is {code}.", fatal=True)
        await self.websocket.close(close, code)

    async def hear(self, *, seconds: float = 1e9) -> None:
        """Receive this much audio, or everything up to the end."""
        while len(self.audio) < seconds * SECOND:
            message = await self.websocket.recv()
            if isinstance(message, bytes):
                self.audio += message
            else:
                self.texts.append(json.loads(message)["type"])
                if self.texts[-1] == "stop":
                    return

    async def final(self, segment: int, cut_ms: int, **more: Any) -> None:
        """Send a final with one word, and a pause after it."""
        times = {"start_ms": cut_ms - 900, "end_ms": cut_ms - 500, "audio_ms": cut_ms + 500, "cut_ms": cut_ms}
        await self.say("final", segment=segment, text=f"word {segment}", **{**times, **more})

    async def done(self) -> None:
        """End the session."""
        await self.say("done", audio_ms=len(self.audio) * 1000 // SECOND)
        await self.websocket.close()

    async def vanish(self) -> None:
        """Lose the connection."""
        self.websocket.transport.abort()


@asynccontextmanager
async def living(*lives: Life) -> AsyncIterator[tuple[str, list[ServedConnection]]]:
    """Run a service in which each connection gets the next of these lives; the last life is used for all others.

    Yields its address, and what came over each connection.
    """
    met: list[ServedConnection] = []

    async def meet(websocket: ServerConnection) -> None:
        heard = ServedConnection(websocket, json.loads(await websocket.recv()))
        met.append(heard)
        try:
            await lives[min(len(met), len(lives)) - 1](heard)
            await websocket.wait_closed()
        except ConnectionClosed:
            pass

    async with serve(meet, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}", met


async def forgotten(heard: ServedConnection) -> None:
    """A service that was restarted and does not know the session."""
    await heard.error("unknown_token", 4000)


def audio(seconds: float) -> bytes:
    """Audio with a different value in each tenth of a second."""
    return b"".join(bytes([tenth % 251]) * (SECOND // 10) for tenth in range(round(seconds * 10)))


async def everything(session: Session) -> list[Any]:
    return [event async for event in session]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all limits and pauses short."""
    monkeypatch.setattr(streamer.client.recovery, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(streamer.client.connection, "CLOSE_S", 0.1)


async def first(heard: ServedConnection) -> None:
    """Five seconds with a final that ends at three; then the connection is lost."""
    await heard.ready()
    await heard.hear(seconds=5)
    await heard.final(0, 3000)
    await asyncio.sleep(0.05)
    await heard.vanish()


async def test_another_session_goes_on_at_the_cut() -> None:
    """Another session goes on at the cut with the same options, and all events look like those of one session."""

    async def second(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear()
        await heard.final(0, 2000)
        await heard.done()

    options = {"words": False, "endpoint": {"after_text_ms": 500}}
    async with living(first, forgotten, second) as (address, met), connect(address, options) as session:
        await session.send(audio(5))
        events: list[Any] = [await anext(session) for _ in range(2)]
        await session.send(audio(6)[5 * SECOND :])
        await session.stop()
        events += await everything(session)
    assert [(event["type"], event["n"]) for event in events] == [
        ("final", 2),
        ("restarted", 3),
        ("final", 4),
        ("done", 5),
    ]
    assert events[1] == {"type": "restarted", "n": 3, "from_ms": 3000, "segment": 1}
    assert (events[2]["segment"], events[2]["end_ms"], events[3]["audio_ms"]) == (1, 4500, 6000)
    assert met[0].start == met[2].start == {"type": "start", **options}
    assert met[1].start["resume"] == {"token": "secret", "after": 2}
    assert met[2].audio == audio(6)[3 * SECOND :]
    assert session.ready["n"] == 1


async def test_the_second_session_is_resumed_too() -> None:
    """The second session can be resumed too. Its samples and numbers count from its own beginning."""

    async def second(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=2)
        await heard.say("heard", audio_ms=2000)
        await asyncio.sleep(0.05)
        await heard.vanish()

    async def third(heard: ServedConnection) -> None:
        await heard.websocket.send('{"type":"ready","n":2,"token":"secret","from_sample":16000,"flushes":0}')
        heard.said = 2
        await heard.hear()
        await heard.done()

    async with living(first, forgotten, second, third) as (address, met), connect(address) as session:
        await session.send(audio(5))
        events: list[Any] = [await anext(session) for _ in range(3)]
        await session.stop()
        events += await everything(session)
    assert [(event["type"], event["n"]) for event in events] == [
        ("final", 2),
        ("restarted", 3),
        ("heard", 4),
        ("done", 5),
    ]
    assert met[3].start["resume"] == {"token": "secret", "after": 2}
    assert met[3].audio == audio(5)[4 * SECOND :]


@pytest.mark.parametrize(
    ("settings", "met", "said"),
    [
        ({"resume": False}, 1, "was lost.$"),
        ({"restart": False}, 2, "does not know the session any more"),
    ],
)
async def test_it_may_be_told_not_to(settings: dict[str, Any], met: int, said: str) -> None:
    """If continuing is switched off, the session is lost, and the message says why."""
    async with living(first, forgotten) as (address, heard), connect(address, **settings) as session:
        await session.send(audio(5))
        assert (await anext(session))["type"] == "final"
        with pytest.raises(SessionError, match=said) as caught:
            await anext(session)
    assert caught.value.code == "lost"
    assert len(heard) == met


async def test_it_goes_on_although_nobody_reads() -> None:
    """A session goes on even if nobody reads its events; those that were not read come again."""

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=1)
        await heard.final(0, 500)
        await heard.error("shutting_down", 1013)

    async def second(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear()
        await heard.done()

    async with living(begin, second) as (address, met), connect(address) as session:
        for tenth in range(40):
            await session.send(audio(4)[tenth * SECOND // 10 : (tenth + 1) * SECOND // 10])
            await asyncio.sleep(0.01)
        await session.stop()
        assert [event["type"] for event in await everything(session)][-1] == "done"
    assert met[1].audio == audio(4)


@pytest.mark.parametrize(("code", "close"), [("shutting_down", 1013), ("idle", 4008)])
async def test_a_service_that_ends_within_a_word(code: str, close: int) -> None:
    """What a service ends itself may end within a word, also behind a pause: the next session hears all of it again.

    It shuts down, or took the client for idle, because the network has swallowed what the client had sent.
    """

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=4)
        await heard.final(0, 2000, audio_ms=2000, abrupt=True)
        await asyncio.sleep(1.0)  # the error is late
        await heard.error(code, close)

    async def second(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=4)
        await heard.final(0, 4000)
        await heard.done()

    async with living(begin, second) as (address, met), connect(address) as session:
        await session.send(audio(4))
        await session.stop()
        events: list[Any] = list(await everything(session))
    assert [event["type"] for event in events] == ["restarted", "final", "done"]
    assert (events[0]["from_ms"], events[1]["text"]) == (0, "word 0")
    assert met[1].audio == audio(4)


async def test_a_close_whose_reason_is_read_later() -> None:
    """Who sends may see the close first, and waits for the reason: here, the network has swallowed what was sent."""

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=2)
        await heard.error("idle", 4008)

    async def second(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=4)
        await heard.done()

    async def read_later(session: Session) -> list[Any]:
        await session._connection._websocket.wait_closed()
        await asyncio.sleep(0.3)
        return await everything(session)

    async with living(begin, second) as (address, met), connect(address) as session:
        await session.send(audio(2))
        reading = asyncio.create_task(read_later(session))
        await session._connection._websocket.wait_closed()
        await session.send(audio(4)[2 * SECOND :])
        await session.stop()
        assert [event["type"] for event in await reading] == ["restarted", "done"]
    assert met[1].audio == audio(4)


async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is closed because nobody reads is over for who sends, and no other one begins."""
    monkeypatch.setattr(streamer.client.session, "REASON_S", 0.2)

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=2)
        await heard.websocket.close(4008, "the client did not read its results for 30 s")

    async with living(begin) as (address, met), connect(address) as session:
        await session.send(audio(2))
        await session._connection._websocket.wait_closed()
        with pytest.raises(SessionError, match="did not read its results") as caught:
            await session.send(audio(1))
    assert caught.value.code == "closed"
    assert len(met) == 1


async def test_a_client_that_was_idle() -> None:
    """A client that had sent nothing more was idle, and its session is over."""

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=2)
        await heard.say("heard", audio_ms=2000)
        await heard.error("idle", 4008)

    async with living(begin) as (address, met), connect(address) as session:
        await session.send(audio(2))
        with pytest.raises(SessionError) as caught:
            await everything(session)
    assert caught.value.code == "idle"
    assert len(met) == 1


async def test_an_abrupt_end_that_stays_the_end() -> None:
    """If no other session goes on, the words that were held back are told before the error, as any others."""

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=2)
        await heard.final(0, 2000, audio_ms=2000, abrupt=True)
        await heard.error("shutting_down", 1013)

    async with living(begin) as (address, _), connect(address, restart=False) as session:
        await session.send(audio(2))
        event: Any = await anext(session)
        assert (event["text"], "abrupt" in event) == ("word 0", False)
        with pytest.raises(SessionError) as caught:
            await anext(session)
    assert caught.value.code == "shutting_down"


async def test_audio_on_which_the_recogniser_fails() -> None:
    """Audio on which the recogniser fails again and again is not sent for ever."""

    async def fail(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=1)
        await heard.error("failed", 1011)

    async with living(fail) as (address, met), connect(address) as session:
        await session.send(audio(1))
        with pytest.raises(SessionError, match="fails again and again") as caught:
            await everything(session)
        with pytest.raises(SessionError, match="fails again and again"):
            await session.send(audio(1))
    assert caught.value.code == "failed"
    assert len(met) == 4


async def test_failures_of_which_only_the_close_is_seen() -> None:
    """A failure counts, too, if the sender notices the close before anybody has read the reason."""

    async def fail(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=1)
        await heard.error("failed", 1011)

    async with living(fail) as (address, met), connect(address) as session:

        async def send() -> None:
            while len(met) < 10:
                await session.send(audio(1))

        with pytest.raises(SessionError, match="fails again and again"):
            await send()
    assert len(met) == 4


async def test_a_send_that_is_cancelled() -> None:
    """If a send is cancelled while the service does not read, its audio arrives once, and all of it."""
    goes_on = asyncio.Event()

    async def pause(heard: ServedConnection) -> None:
        await heard.ready()
        heard.websocket.transport.pause_reading()
        await goes_on.wait()
        heard.websocket.transport.resume_reading()
        await heard.hear()
        await heard.done()

    async with living(pause) as (address, met), connect(address) as session:
        sending = asyncio.create_task(session.send(audio(450)))
        done, _ = await asyncio.wait({sending}, timeout=1.0)
        assert not done
        sending.cancel()
        goes_on.set()
        await session.stop()
        assert (await everything(session))[-1]["type"] == "done"
    assert met[0].audio == audio(450)


async def test_services_that_end_one_after_another() -> None:
    """A session that ends with its service says nothing about the audio: the client goes on at the next service."""

    async def end(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=1)
        await heard.error("shutting_down", 1013)

    async def last(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=1)
        await heard.done()

    async with living(*[end] * 6, last) as (address, met), connect(address) as session:
        await session.send(audio(1))
        await session.stop()
        assert [event["type"] for event in await everything(session)][-1] == "done"
    assert len(met) == 7
    assert met[-1].audio == audio(1)


async def test_a_start_that_comes_late() -> None:
    """The way was too slow for the start of a connection that resumes: the client tries again."""

    async def end(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.error("shutting_down", 1013)

    async def no_start(heard: ServedConnection) -> None:
        await heard.error("no_start", 4008)

    async def last(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=1)
        await heard.done()

    async with living(end, no_start, last) as (address, met), connect(address) as session:
        await session.send(audio(1))
        await session.stop()
        assert [event["type"] for event in await everything(session)][-1] == "done"
    assert len(met) == 3


async def test_a_service_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a limit the client gives up, and the error says what happened first and last."""
    monkeypatch.setattr(streamer.client.recovery, "REOPEN_S", 0.3)

    async def full(heard: ServedConnection) -> None:
        await heard.error("full", 1013)

    async def ends(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.error("shutting_down", 1013)

    async with living(ends, full) as (address, met), connect(address) as session:
        with pytest.raises(SessionError, match=r"It is shutting_down\. After 0\.3 s of attempts: It is full") as caught:
            await everything(session)
    assert caught.value.code == "shutting_down"
    assert len(met) > 3


async def test_a_refusal_that_does_not_pass() -> None:
    """The user gets the error of a refusal that will not pass."""

    async def refuse(heard: ServedConnection) -> None:
        await heard.error("unauthorized", 1008)

    async with living(first, forgotten, refuse) as (address, met), connect(address) as session:
        await session.send(audio(5))
        with pytest.raises(SessionError, match="It is unauthorized") as caught:
            await everything(session)
    assert caught.value.code == "unauthorized"
    assert len(met) == 3


async def test_a_session_that_is_closed_meanwhile() -> None:
    """If the session is closed meanwhile, nobody waits for another one."""

    async def full(heard: ServedConnection) -> None:
        await heard.error("full", 1013)

    async with living(first, full) as (address, _):
        session = await connect(address)
        await session.send(audio(5))
        assert (await anext(session))["type"] == "final"
        reading = asyncio.create_task(everything(session))
        await asyncio.sleep(0.2)
        await session.close()
        with pytest.raises(SessionError):
            await asyncio.wait_for(reading, 60)


async def test_a_live_session_is_not_too_fast() -> None:
    """What a live session and its caller kept meanwhile is sent slowly enough not to be closed for it."""
    ahead = 0.0

    async def begin(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=10)
        await heard.vanish()

    async def second(heard: ServedConnection) -> None:
        nonlocal ahead
        await heard.ready()
        told_s = 0.0
        while "stop" not in heard.texts:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(heard.hear(), 0.2)
            ahead = max(ahead, len(heard.audio) / SECOND - told_s)
            told_s = len(heard.audio) / SECOND
            await heard.say("heard", audio_ms=round(told_s * 1000))
        await heard.done()

    async with living(begin, forgotten, second) as (address, met), connect(address, {"live": True}) as session:
        spoken = audio(40)
        await session.send(spoken[: 10 * SECOND])
        assert (await anext(session))["type"] == "restarted"
        events = asyncio.create_task(everything(session))
        await session.send(spoken[10 * SECOND :])  # what a microphone has recorded meanwhile
        await session.stop()
        assert (await events)[-1]["audio_ms"] == 40_000
    assert met[2].audio == audio(40)
    assert 14 < ahead < 17


async def test_a_live_session_that_waits_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the service recognises nothing, the client sends no more audio, but says that it is there."""
    monkeypatch.setattr(streamer.client.session, "KEEPALIVE_S", 0.1)

    async def stand_still(heard: ServedConnection) -> None:
        await heard.ready()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(heard.hear(), 2.0)
        waiting.append(len(heard.audio) / SECOND)
        await heard.say("heard", audio_ms=round(waiting[0] * 1000))
        await heard.hear()
        await heard.done()

    waiting: list[float] = []
    async with living(stand_still) as (address, met), connect(address, {"live": True}) as session:
        events = asyncio.create_task(everything(session))
        await session.send(audio(20))
        await session.stop()
        assert (await events)[-1]["type"] == "done"
    assert 14 < waiting[0] < 17
    assert met[0].texts.count("keepalive") > 3
    assert met[0].audio == audio(20)


async def test_long_silence_is_not_kept() -> None:
    """After minutes of silence no more is kept than the longest segment and what the service may be behind."""
    most = 0.0

    async def listen(heard: ServedConnection) -> None:
        await heard.ready()
        while len(heard.audio) < 200 * SECOND:
            await heard.hear(seconds=len(heard.audio) / SECOND + 1)
            await heard.say("heard", audio_ms=len(heard.audio) * 1000 // SECOND)
        await heard.hear()
        await heard.done()

    async with living(listen) as (address, _), connect(address) as session:
        for _ in range(200):
            await session.send(bytes(SECOND))
            await anext(session)
            most = max(most, session._kept.kept_ms)
        await session.stop()
        assert (await everything(session))[-1]["type"] == "done"
    assert 30_000 <= most < 33_000


async def test_who_is_silent_is_not_given_up() -> None:
    """A service that owes no answer may be silent; one that owes an answer may not."""

    async def quiet(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear()

    async with living(quiet) as (address, _), connect(address) as session:
        session._connection.patience_s = 0.1  # from now on: on a busy machine, it takes longer until it is ready
        reading = asyncio.create_task(everything(session))
        for _ in range(5):
            await asyncio.sleep(0.1)
            await session.keepalive()
        assert not reading.done()
        await session.send(audio(2))
        with pytest.raises(SessionError, match=r"has sent nothing for 0\.1 s"):
            await asyncio.wait_for(reading, 60)


async def test_a_service_that_never_ends_is_given_up() -> None:
    """A service that goes on sending after `stop`, but recognises nothing, is given up; one that advances is not."""
    heard_ms = [0]

    async def talkative(heard: ServedConnection) -> None:
        await heard.ready()
        with suppress(ConnectionClosed):
            while True:
                heard_ms[0] = min(heard_ms[0] + 20, 2000)
                await heard.say("heard", audio_ms=heard_ms[0])
                await asyncio.sleep(0.02)

    async with living(talkative) as (address, _), connect(address) as session:
        session._connection.patience_s = 0.5  # all of the audio takes longer
        await session.send(audio(3))
        await session.stop()
        with pytest.raises(SessionError, match=r"has sent messages, but recognised nothing for 0\.5 s") as failure:
            await asyncio.wait_for(everything(session), 60)
    assert (failure.value.code, heard_ms[0]) == ("overdue", 2000)


async def test_another_session_is_given_the_words_before_its_audio() -> None:
    """Another session gets the context of the last final; the events of finals do not contain it."""
    context = {"begins": False, "words": [{"word": "so", "pause_ms": 80}]}

    async def first(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear(seconds=3)
        times = {"start_ms": 100, "end_ms": 500, "audio_ms": 1500, "cut_ms": 1000}
        await heard.say("final", segment=0, text="So", context=context, **times)
        await heard.say("partial", segment=1, text="b", stable=0, start_ms=1000, audio_ms=2600)
        await heard.vanish()

    async def second(heard: ServedConnection) -> None:
        await heard.ready()
        await heard.hear()
        await heard.done()

    async with living(first, forgotten, second) as (url, met), connect(url, {"written": True}) as session:
        await session.send(audio(3))
        await session.stop()
        events = await everything(session)
    assert [heard.start.get("context") for heard in met] == [None, None, [context]]
    assert met[2].start["written"] is True
    assert not any("context" in event for event in events)
