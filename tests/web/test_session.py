"""The JavaScript session in a real browser with a real service: its events, and how it survives failures."""

from __future__ import annotations

import socket
from pathlib import Path

from playwright.async_api import Page

from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing.faulty_proxy import proxy
from tests.bridge.service_client import SPOKEN, lasting, serving
from tests.web.conftest import CONNECTIONS, OpenPage
from tests.web.expected_words import of, undisturbed, words


async def test_a_recording_is_written_down(bench: Page, service: Service) -> None:
    """The session uses the service of the module; each event comes once, in order, with the right words."""
    result = await bench.evaluate(
        """async () => {
            const session = await begin();
            const states = [session.state];
            const ready = await session.ready;
            states.push(session.state);
            session.send(await pcm("spoken"));
            const done = await session.stop();
            states.push(session.state);
            return {told: session.told, ready, done, states, latency: session.latencyMs, buffered: session.bufferedMs};
        }"""
    )
    told, expected = result["told"], await undisturbed(service.url, SPOKEN)
    numbers = [event["n"] for event in told if "n" in event]
    assert numbers == list(range(1, len(numbers) + 1))
    assert lasting([{**event, "type": event["event"]} for event in told if "segment" in event or "at_ms" in event])
    assert words(told) == " ".join(event["text"] for event in expected if event["type"] == "final")
    assert result["states"] == ["connecting", "open", "closed"]
    assert [(event["state"], event["code"]) for event in of(told, "state")] == [("open", ""), ("closed", "done")]
    assert result["ready"]["type"] == "ready"
    assert result["done"]["audio_ms"] == len(SPOKEN) // 32
    assert result["latency"] > 0
    assert result["buffered"] == 0
    assert told[0]["event"] == "state"
    assert not of(told, "error")


async def test_flush_and_stop_are_promises(bench: Page) -> None:
    """Everything before a flush is final when it resolves, and the session goes on."""
    told = await bench.evaluate(
        """async () => {
            const session = await begin();
            session.send((await pcm("short")).buffer);
            session.nameSpeakers(["Ada", ""]);
            await session.flush();
            const first = session.told.filter(({event}) => event === "final").length;
            session.send(await pcm("long"));
            await Promise.all([session.stop(), session.stop()]);
            session.send(new Int16Array(16000));
            return {first, told: session.told};
        }"""
    )
    assert told["first"] >= 1
    finals = of(told["told"], "final")
    assert "three" in words(finals[: told["first"]])
    assert "quietly" in words(finals[told["first"] :])
    assert not of(told["told"], "error")


REFUSAL = """async (settings) => {
    const session = await begin(settings);
    const error = await failure(session.ready);
    return {error, state: session.state, told: session.told, stop: await failure(session.stop())};
}"""


async def test_fractions_are_no_whole_numbers(bench: Page) -> None:
    """A Float32Array would be noise as whole numbers, so it is refused unless the encoding says that it is right."""
    said = await bench.evaluate(
        """async () => {
            const said = [];
            for (const options of [{}, {encoding: "pcm_f32le"}]) {
                const session = await begin({options});
                try {
                    session.send(new Float32Array(160));
                    said.push("");
                } catch (error) {
                    said.push(`${error.name}: ${error.message}`);
                }
                session.close();
            }
            return said;
        }"""
    )
    assert said[0].startswith("TypeError: a Float32Array needs the encoding pcm_f32le")
    assert said[1] == ""


async def test_a_key_is_needed(triton: TritonServer, open_bench: OpenPage, tmp_path: Path) -> None:
    """No key, a wrong one and an impossible one are reported; the right one works."""
    key = make_key("alice")
    (tmp_path / "keys").write_text(key.line + "\n")
    policy = PortPolicy(AccessRules(KeyFile(tmp_path / "keys")))
    async with serving(triton, policy=policy) as service:
        bench = await open_bench()
        for wrong in ("", "streamer_wrong", "not a key, is it"):
            result = await bench.evaluate(REFUSAL, {"url": service.url, "key": wrong})
            assert result["error"]["code"] == "key_needed", wrong
            assert len(result["error"]["message"].split()) > 5
            assert result["stop"]["code"] == "key_needed"
            (state,) = of(result["told"], "state")
            assert (state["state"], state["code"]) == ("closed", "key_needed")
            assert of(result["told"], "error")[0]["fatal"] is True
        right = {"url": service.url, "key": key.secret}
        assert await bench.evaluate("async (settings) => (await (await begin(settings)).ready).type", right) == "ready"


async def test_a_full_service(triton: TritonServer, open_bench: OpenPage) -> None:
    """A full service is reported with the time for another attempt."""
    async with serving(triton, sessions=1) as service:
        bench = await open_bench()
        await bench.evaluate(
            "async (url) => { globalThis.first = await begin({url}); await first.ready; }", service.url
        )
        result = await bench.evaluate(REFUSAL, {"url": service.url})
        assert (result["error"]["code"], result["error"]["reported"]) == ("full", "full")
        assert result["error"]["retryMs"] > 0
        assert of(result["told"], "state")[-1]["retryMs"] == result["error"]["retryMs"]
        assert await bench.evaluate("first.state") == "open"
        await bench.evaluate("first.close()")


async def test_nobody_answers(open_bench: OpenPage) -> None:
    """If nobody answers, the message names the address."""
    bench = await open_bench(expected=[CONNECTIONS])
    result = await bench.evaluate(REFUSAL, {"url": "http://127.0.0.1:1"})
    assert result["error"]["code"] == "unreachable"
    assert "127.0.0.1:1" in result["error"]["message"]


async def test_options_that_do_not_exist_are_refused(bench: Page) -> None:
    """A refused option gives the service's own message."""
    result = await bench.evaluate(REFUSAL, {"options": {"hotword": "typo"}})
    assert (result["error"]["code"], result["error"]["reported"]) == ("refused", "unknown_option")
    assert "hotwords" in result["error"]["message"]


async def test_closing_is_for_good(bench: Page) -> None:
    """After closing no events come, and promises reject."""
    result = await bench.evaluate(
        """async () => {
            const session = await begin();
            await session.ready;
            await speak(session, "short", {to: 1});
            const stop = failure(session.stop());
            session.close();
            const told = session.told.length;
            await wait(500);
            return {state: session.state, error: await stop, more: session.told.length - told, told: session.told};
        }"""
    )
    assert (result["state"], result["error"]["code"], result["more"]) == ("closed", "closed", 0)
    assert of(result["told"], "state")[-1]["state"] == "closed"


async def test_a_recording_does_not_overfill(bench: Page) -> None:
    """`room` holds back a sender at full speed; the waiting audio is limited, and everything is recognised."""
    result = await bench.evaluate(
        """async () => {
            const session = await begin();
            const sound = await pcm("spoken");
            let most = 0, buffered = 0, given = 0;
            for (let turn = 0; turn < 4; turn++) {
                for (let at = 0; at < sound.length; at += 8000) {
                    await session.room();
                    const piece = sound.subarray(at, at + 8000);
                    session.send(piece);
                    given += piece.length / 16;
                    const heard = session.told.reduce((most, {audio_ms = 0}) => Math.max(most, audio_ms), 0);
                    most = Math.max(most, given - heard);
                    buffered = Math.max(buffered, session.bufferedMs);
                }
            }
            const done = await session.stop();
            return {most, buffered, given, done: done.audio_ms, overflowed: session.overflowedMs};
        }"""
    )
    assert result["done"] == int(result["given"])
    assert 5_000 < result["most"] < 35_000
    assert result["buffered"] < 10_000
    assert result["overflowed"] == 0


async def test_what_cannot_be_kept_is_counted(open_bench: OpenPage) -> None:
    """Five minutes of live audio wait for a service that does not answer; later audio is dropped and reported."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        bench = await open_bench(expected=[CONNECTIONS])
        result = await bench.evaluate(
            """async (url) => {
                const session = await begin({url});
                for (let s = 0; s < 310; s++) session.send(new Int16Array(16000));
                const told = {buffered: session.bufferedMs, overflowed: session.overflowedMs, told: session.told};
                session.close();
                return told;
            }""",
            f"http://127.0.0.1:{deaf.getsockname()[1]}",
        )
    assert (result["buffered"], result["overflowed"]) == (300_000, 10_000)
    assert len(of(result["told"], "overflow")) == 10
    assert of(result["told"], "overflow")[-1]["totalMs"] == 10_000


async def test_a_live_session_is_not_too_fast_after_a_loss(triton: TritonServer, open_bench: OpenPage) -> None:
    """Audio that was spoken during a loss is sent as fast as a live session allows, and no faster."""
    async with serving(triton) as service, proxy(service.url.split("/")[2]) as (address, _):
        bench = await open_bench()
        told = await bench.evaluate(
            """async (url) => {
                const session = await begin({url, options: {live: true}});
                const sound = await pcm("spoken");
                for (let turn = 0; turn < 4; turn++) session.send(sound);
                await session.stop();
                return session.told;
            }""",
            f"http://{address}",
        )
    assert of(told, "done")[0]["audio_ms"] > 49_000
    assert not of(told, "error")
