"""The JavaScript session in a real browser, whose connection or service is lost: no word is lost or said twice."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Page
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from streamer.bridge.triton.server import TritonServer
from streamer.client import transcribe
from streamer.testing.faulty_proxy import proxy
from tests.bridge.service_client import SPOKEN, lasting, serving
from tests.client.scripted_peer import peer
from tests.samples import TWO_SEGMENTS_S, pcm
from tests.serve_process import RestartableService
from tests.web.conftest import CONNECTIONS, SAID, OpenPage
from tests.web.expected_words import of, undisturbed, words


@pytest.mark.parametrize("faster", [2, 50])
async def test_a_connection_that_is_cut(triton: TritonServer, open_bench: OpenPage, faster: int) -> None:
    """A session is resumed wherever it is cut: the same words and times as without, and each event once."""
    async with serving(triton) as service, proxy(service.url.split("/")[2]) as (address, cut):
        bench = await open_bench(expected=[CONNECTIONS])
        await bench.evaluate(
            """async ([url, faster]) => {
                globalThis.session = await begin({url});
                globalThis.cutTwice = new Promise((resolve) => (globalThis.goOn = resolve));
                globalThis.over = speak(session, "spoken", {faster, to: 8})
                    .then(() => cutTwice)
                    .then(() => speak(session, "spoken", {faster, from: 8}))
                    .then(() => session.stop());
            }""",
            [f"http://{address}", faster],
        )
        for number in range(4):
            await asyncio.sleep(2.5 / faster + 0.4)
            await cut()
            if number == 1:
                await bench.evaluate("goOn()")
        await bench.evaluate("over")
        told = await bench.evaluate("session.told")
        expected = await undisturbed(service.url, SPOKEN)
    numbers = [event["n"] for event in told if "n" in event]
    assert numbers == list(range(1, len(numbers) + 1))
    kept = [{name: value for name, value in event.items() if name != "event"} for event in told if "n" in event]
    assert lasting(kept) == lasting(expected)
    assert sum(event["state"] == "resuming" for event in of(told, "state")) >= 1
    assert not of(told, "restarted")
    assert of(told, "state")[-1]["code"] == "done"


async def test_a_service_that_is_ended(served: RestartableService, open_bench: OpenPage) -> None:
    """Another session recognises again what was not final: no word is lost, doubled or cut, and times go on."""
    # After SIGTERM sessions may go on for some seconds. Then the service makes final what it has recognised: here a
    # part of the second segment.
    await restarted(served, open_bench, signal.SIGTERM, SPOKEN, pause_s=9.0, heard_ms=8_500)


async def test_a_service_that_is_killed(served_as_shipped: RestartableService, open_bench: OpenPage) -> None:
    """The same with the shipped model: marks and capitals are those of the words before the restart."""
    talk = pcm("talk.flac", TWO_SEGMENTS_S)
    await restarted(served_as_shipped, open_bench, signal.SIGKILL, talk, pause_s=6.5, heard_ms=5_600, written=True)


async def restarted(
    served: RestartableService,
    open_bench: OpenPage,
    how: signal.Signals,
    audio: bytes,
    *,
    pause_s: float,
    heard_ms: int,
    **options: bool,
) -> None:
    """Speak to a service that ends after so much audio and comes back, and check the events."""
    bench = await open_bench(expected=[CONNECTIONS])
    await bench.evaluate(
        """async ([url, options, name, pause, end]) => {
            globalThis.session = await begin({url, options});
            globalThis.restarted = new Promise((resolve) => (globalThis.goOn = resolve));
            globalThis.over = speak(session, name, {faster: 2, to: pause})
                .then(() => restarted)
                .then(() => speak(session, name, {faster: 2, from: pause, to: end}))
                .then(() => session.stop());
        }""",
        [served.site, options, "spoken" if audio is SPOKEN else "talk", pause_s, len(audio) / 32_000],
    )
    await bench.wait_for_function("(heard) => session.told.some(({audio_ms}) => audio_ms >= heard)", arg=heard_ms)
    await served.stop(how)
    await served.start()
    await bench.evaluate("goOn(), over")
    told = await bench.evaluate("session.told")
    undivided = await undisturbed(served.site, audio, **options)
    expected = [event for event in undivided if event["type"] == "final"]
    finals = of(told, "final")
    assert [final["text"] for final in finals] == [final["text"] for final in expected]
    assert [final["segment"] for final in finals] == list(range(len(finals)))
    for final, right in zip(finals, expected, strict=True):
        assert [(word["start_ms"], word["end_ms"]) for word in final["words"]] == [
            (word["start_ms"], word["end_ms"]) for word in right["words"]
        ]
    numbers = [event["n"] for event in told if "n" in event]
    assert numbers == list(range(1, len(numbers) + 1))
    (restart,) = of(told, "restarted")
    assert restart["fromMs"] > 0
    assert restart["segment"] == sum(final["end_ms"] <= restart["fromMs"] for final in finals)
    codes = [event["code"] for event in of(told, "state")]
    assert ("not_ready" if how is signal.SIGTERM else "unknown_token") in codes
    assert codes[-1] == "done"


async def test_another_address_of_the_service(
    triton: TritonServer, served: RestartableService, open_bench: OpenPage
) -> None:
    """A session goes on at the next address when its bridge was killed, and another one begins there at once."""
    async with serving(triton) as other:
        bench = await open_bench(expected=[CONNECTIONS])
        await bench.evaluate(
            """async (url) => {
                globalThis.session = await begin({url});
                globalThis.killed = new Promise((resolve) => (globalThis.goOn = resolve));
                globalThis.over = speak(session, "spoken", {faster: 4, to: 7})
                    .then(() => killed)
                    .then(() => speak(session, "spoken", {faster: 4, from: 7}))
                    .then(() => session.stop());
            }""",
            [served.site, other.url],
        )
        await bench.wait_for_function("session.told.some(({audio_ms}) => audio_ms >= 6500)")
        await served.stop(signal.SIGKILL)
        await bench.evaluate("goOn(), over")
        told = await bench.evaluate("session.told")
        expected = [event for event in await undisturbed(other.url, SPOKEN) if event["type"] == "final"]
        assert [final["text"] for final in of(told, "final")] == [final["text"] for final in expected]
        assert len(of(told, "restarted")) == 1
        again = "async (url) => { const another = await begin({url}); await another.ready; return another.state; }"
        assert await bench.evaluate(again, [served.site, other.url]) == "open"


async def test_two_channels_of_a_service_that_is_restarted(served: RestartableService, open_bench: OpenPage) -> None:
    """Each channel goes on at its own cut, and nothing is repeated."""
    plan = [(0, 0, "long"), (0, 8, "short"), (1, 1, "short"), (1, 7, "long")]
    bench = await open_bench(expected=[CONNECTIONS])
    await bench.evaluate(
        """async ([url, plan]) => {
            globalThis.session = await begin({url, options: {channels: 2, multichannel: true}});
            globalThis.both = new Int16Array(2 * 16000 * 14);
            for (const [channel, second, name] of plan)
                (await pcm(name)).forEach((sample, at) => (both[2 * (at + 16000 * second) + channel] = sample));
            session.send(both.subarray(0, 2 * 16000 * 10));
        }""",
        [served.site, plan],
    )
    await bench.wait_for_function("session.told.some(({audio_ms}) => audio_ms >= 9300)")
    await served.stop(signal.SIGKILL)
    await served.start()
    await bench.evaluate("session.send(both.subarray(2 * 16000 * 10))")
    await bench.evaluate("session.stop()")
    told = await bench.evaluate("session.told")
    both = np.zeros((14 * 16_000, 2), "<i2")
    for channel, second, name in plan:
        sound = np.frombuffer(SAID[name], "<i2")
        both[16_000 * second : 16_000 * second + len(sound), channel] = sound
    options = {"channels": 2, "multichannel": True}
    right: list[Any] = [event async for event in transcribe([both.tobytes()], served.site, options=options)]
    expected = [event for event in right if event["type"] == "final"]
    restarted, finals = of(told, "restarted"), of(told, "final")
    assert [event["channel"] for event in restarted] == [0, 1]
    assert [event["segment"] for event in restarted] == [1, 1]
    slow = 0 if restarted[0]["fromMs"] < restarted[1]["fromMs"] else 1
    for channel in (0, 1):
        own, right = ([event for event in some if event["channel"] == channel] for some in (finals, expected))
        assert [event["segment"] for event in own] == list(range(len(right)))
        if channel == slow:
            assert [(event["text"], event["start_ms"], event["end_ms"]) for event in own] == [
                (event["text"], event["start_ms"], event["end_ms"]) for event in right
            ]
    numbers = [event["n"] for event in told if "n" in event]
    assert numbers == list(range(1, len(numbers) + 1))


async def _stand_still(served: RestartableService, bench: Page, act: str) -> None:
    """Stop the service, let the client do this, and wait until it gives up the connection. Then the service goes on."""
    served.send(signal.SIGSTOP)
    await bench.evaluate(act)
    await bench.clock.run_for(20_000)
    assert await bench.evaluate("session.state") == "open"
    await bench.wait_for_function("session.state === 'resuming'", timeout=60_000)
    served.send(signal.SIGCONT)


async def test_a_connection_on_which_nothing_comes(served: RestartableService, open_bench: OpenPage) -> None:
    """A silent connection is given up and the session goes on over another one, without a missing word."""
    bench = await open_bench(expected=[CONNECTIONS])
    await bench.clock.install()
    await bench.evaluate(
        """async (url) => {
            globalThis.session = await begin({url});
            await session.ready;
            globalThis.stalled = new Promise((resolve) => (globalThis.goOn = resolve));
            globalThis.over = speak(session, "long", {to: 3})
                .then(() => stalled)
                .then(() => speak(session, "long", {from: 3}))
                .then(() => session.stop());
        }""",
        served.site,
    )
    await bench.wait_for_function("session.told.some(({audio_ms}) => audio_ms > 2000)")
    await _stand_still(served, bench, "goOn()")
    await bench.evaluate("over")
    told = await bench.evaluate("session.told")
    expected = await undisturbed(served.site, SAID["long"])
    assert words(told) == " ".join(event["text"] for event in expected if event["type"] == "final")
    assert "has sent nothing for 25 s" in "".join(event["reason"] for event in of(told, "state"))
    assert not of(told, "restarted")


@pytest.mark.parametrize("asked", ["stop", "flush"])
async def test_an_end_that_nobody_answers(served: RestartableService, open_bench: OpenPage, asked: str) -> None:
    """The end of a segment is due, too, when all audio was heard: the session goes on over another connection."""
    bench = await open_bench(expected=[CONNECTIONS])
    await bench.clock.install()
    await bench.evaluate(
        """async (url) => {
            globalThis.session = await begin({url});
            await session.ready;
            globalThis.over = speak(session, "short");
        }""",
        served.site,
    )
    await bench.wait_for_function("session.told.some(({audio_ms}) => audio_ms > 2500)")
    await bench.evaluate("over")
    await _stand_still(served, bench, f"void (over = session.{asked}())")
    await bench.evaluate("over.then(() => session.stop())")
    told = await bench.evaluate("session.told")
    expected = await undisturbed(served.site, SAID["short"])
    assert words(told) == " ".join(event["text"] for event in expected if event["type"] == "final")
    assert not of(told, "restarted")


async def test_a_service_that_never_ends(open_bench: OpenPage) -> None:
    """A service that goes on sending after `stop`, but recognises nothing, is given up, with a sentence."""

    async def talkative(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send('{"type":"ready","n":1,"version":1,"token":"t","sample_rate":16000,"from_sample":0}')
        with suppress(ConnectionClosed):
            while True:
                await websocket.send('{"type":"heard","audio_ms":0}')
                await asyncio.sleep(0.02)

    bench = await open_bench(expected=[CONNECTIONS])
    async with peer(talkative, subprotocols=[Subprotocol("streamer")]) as address:
        await bench.clock.install()
        await bench.evaluate(
            """async (url) => {
                globalThis.session = await begin({url});
                await session.ready;
                globalThis.over = failure(session.stop());
            }""",
            f"ws://{address}",
        )
        for _ in range(5):
            await bench.clock.run_for(20_000)
            count = await bench.evaluate("session.told.length")
            if await bench.evaluate("session.state") == "open":
                await bench.wait_for_function("(count) => session.told.length > count", arg=count)
        failed = await bench.evaluate("over")
    assert failed["code"] == "overdue"
    assert "recognised nothing for 90 s" in failed["message"]


async def test_without_a_restart_it_says_that_the_session_is_gone(
    served: RestartableService, open_bench: OpenPage
) -> None:
    """Words that are not final are lost then, and the user is told so."""
    bench = await open_bench(expected=[CONNECTIONS])
    await bench.evaluate(
        """async (url) => {
            globalThis.session = await begin({url, restart: false});
            await session.ready;
            await speak(session, "short");
        }""",
        served.site,
    )
    await served.stop(signal.SIGKILL)
    await bench.evaluate("happens(session, 'state')")
    await served.start()
    error = await bench.evaluate("failure(session.stop())")
    assert (error["name"], error["code"], error["reported"]) == ("StreamerError", "lost", "unknown_token")
    assert "does not know this session" in error["message"]
    assert of(await bench.evaluate("session.told"), "state")[-1]["state"] == "closed"


async def test_without_resume_a_lost_connection_is_the_end(triton: TritonServer, open_bench: OpenPage) -> None:
    """The lost connection is an error and a state, and rejects the promises."""
    async with serving(triton) as service, proxy(service.url.split("/")[2]) as (address, cut):
        bench = await open_bench(expected=[CONNECTIONS])
        await bench.evaluate(
            """async (url) => {
                globalThis.session = await begin({url, resume: false});
                globalThis.ended = happens(session, "error");
                await session.ready;
            }""",
            f"ws://{address}/v1/stream",
        )
        await cut()
        await bench.evaluate("ended")
        assert (await bench.evaluate("failure(session.room())"))["code"] == "lost"
        states = of(await bench.evaluate("session.told"), "state")
    assert [event["state"] for event in states] == ["open", "closed"]
