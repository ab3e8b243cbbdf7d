"""The microphone of a browser, which plays a recording: its words appear, and problems are reported clearly."""

from __future__ import annotations

import pytest
from playwright.async_api import Page

from streamer.bridge.service import Service
from tests.samples import pcm
from tests.web.browsing import FAKE_CONSENT, FAKE_DEVICE
from tests.web.conftest import OpenBrowser, OpenPage
from tests.web.expected_words import alike, undisturbed, words

OPEN = """async (settings) => {
    const {Microphone} = await load("microphone");
    globalThis.microphone = new Microphone();
    globalThis.heard = [];
    globalThis.levels = [];
    globalThis.ended = happens(microphone, "ended", 60_000);
    ended.catch(() => {});
    microphone.addEventListener("audio", ({detail}) => heard.push(detail));
    microphone.addEventListener("level", ({detail}) => levels.push(detail));
    return failure(microphone.start(settings));
}"""

UNPROCESSED = {"echoCancellation": False, "noiseSuppression": False, "autoGainControl": False}


async def test_what_is_said_is_written_down(
    open_browser: OpenBrowser, open_bench: OpenPage, shipped_service: Service, shipped_site: str
) -> None:
    """The recording's words are in the finals, and partials came before them; a constraint reaches the browser.

    test_page_speaking.py has the same without constraints.
    """
    bench = await open_bench(site=shipped_site, browser=await open_browser("quilter.ogg", lead_s=1.0))
    told = await bench.evaluate(
        """async (constraints) => {
            const {Microphone} = await load("microphone");
            const session = await begin({options: {live: true}});
            const microphone = new Microphone();
            microphone.addEventListener("audio", ({detail}) => session.send(detail));
            await microphone.start({constraints});
            await wait(7200);
            await microphone.stop();
            await session.stop();
            return {told: session.told, latency: session.latencyMs};
        }""",
        UNPROCESSED,
    )
    expected = " ".join(
        event["text"]
        for event in await undisturbed(shipped_service.url, pcm("quilter.ogg"))
        if event["type"] == "final"
    )
    assert alike(words(told["told"]), expected) > 0.8
    assert sum(event["event"] == "partial" for event in told["told"]) > 5
    assert told["latency"] > 0


@pytest.mark.parametrize("chunk_ms", [20, 40, 100])
async def test_chunks_and_levels(open_browser: OpenBrowser, open_bench: OpenPage, chunk_ms: int) -> None:
    """Each chunk has the wanted length, except perhaps the last, and comes with a level."""
    bench = await open_bench(browser=await open_browser("airplane.mp3", lead_s=0.5))
    assert await bench.evaluate(OPEN, {"chunkMs": chunk_ms}) is None
    await bench.wait_for_function("heard.reduce((sum, {length}) => sum + length, 0) >= 2.5 * 16_000")
    sizes, levels, passed_ms = await bench.evaluate(
        "async () => { await microphone.stop(); return [heard.map(({length}) => length), levels, performance.now()]; }"
    )
    assert set(sizes[:-1]) == {16 * chunk_ms}
    assert 0 < sizes[-1] <= 16 * chunk_ms
    assert sum(sizes) / 16 < passed_ms
    assert len(levels) == len(sizes)
    assert all(0 <= level["rms"] <= level["peak"] <= 1 for level in levels)
    assert max(level["peak"] for level in levels) > 0.02
    assert min(level["peak"] for level in levels) < 0.01


async def test_a_pause_is_not_heard(open_browser: OpenBrowser, open_bench: OpenPage) -> None:
    """Nothing is recorded during a pause; sound before it is delivered at once, and sound after it is recorded."""
    bench = await open_bench(browser=await open_browser("talk.flac", lead_s=0.0))
    await bench.evaluate(OPEN, {"chunkMs": 100})
    counts = await bench.evaluate(
        """async () => {
            const counts = [];
            const count = () => counts.push(heard.reduce((sum, {length}) => sum + length, 0) / 16);
            const more = async (ms, before = heard.length) => {
                while (heard.length < before + ms / 100) await wait(20);
            };
            await more(600);
            await microphone.pause();
            count();
            await wait(1000);
            count();
            const resumed = performance.now();
            microphone.resume();
            await more(600);
            await microphone.stop();
            count();
            const passed = performance.now() - resumed;
            await wait(300);
            count();
            return [...counts, microphone.running, passed];
        }"""
    )
    assert counts[0] > 500
    assert counts[1] == counts[0]
    assert 500 < counts[2] - counts[1] < counts[5] + 500
    assert counts[3:5] == [counts[2], False]


async def test_it_can_be_opened_again(open_browser: OpenBrowser, open_bench: OpenPage) -> None:
    """A stopped microphone can be opened again; an open one cannot be opened twice."""
    bench = await open_bench(browser=await open_browser("airplane.mp3", lead_s=0.5))
    for _ in range(2):
        assert await bench.evaluate(OPEN, {}) is None
        assert (await bench.evaluate("failure(microphone.start())"))["code"] == "microphone_busy"
        await bench.wait_for_function("heard.length > 10")
        await bench.evaluate("microphone.stop()")


async def test_it_can_be_stopped_while_it_is_opened(bench: Page) -> None:
    """If the microphone is stopped while the user is being asked, it is not opened afterwards."""
    error, running = await bench.evaluate(
        """async () => {
            const {Microphone} = await load("microphone");
            const microphone = new Microphone();
            const started = failure(microphone.start());
            await microphone.stop();
            return [await started, microphone.running];
        }"""
    )
    assert (error["code"], running) == ("closed", False)


async def test_permission_is_refused(open_browser: OpenBrowser, open_bench: OpenPage) -> None:
    """If permission is refused, the message says where to give it."""
    bench = await open_bench(browser=await open_browser(flags=[FAKE_DEVICE, f"{FAKE_CONSENT}=deny"]))
    error = await bench.evaluate(OPEN, {})
    assert (error["name"], error["code"]) == ("StreamerError", "no_permission")
    assert "allow it" in error["message"]
    assert await bench.evaluate("microphone.running") is False


async def test_there_is_no_microphone(open_browser: OpenBrowser, open_bench: OpenPage) -> None:
    """Without a microphone, the message says to connect one."""
    bench = await open_bench(browser=await open_browser(flags=[FAKE_CONSENT, "--disable-audio-input"]))
    error = await bench.evaluate(OPEN, {})
    assert error["code"] == "no_microphone"
    assert "connect one" in error["message"]


async def test_the_chosen_microphone_is_gone(bench: Page) -> None:
    """If the chosen microphone is missing, no other one is taken silently."""
    error = await bench.evaluate(OPEN, {"deviceId": "0" * 64})
    assert error["code"] == "no_microphone"
    assert "choose another" in error["message"]


async def test_devices_can_be_chosen(bench: Page) -> None:
    """Devices are listed by name, and each can be opened."""
    await bench.context.grant_permissions(["microphone"])
    devices = await bench.evaluate("async () => (await load('microphone')).Microphone.devices()")
    assert len(devices) >= 2
    assert all(device["label"] for device in devices)
    assert await bench.evaluate(OPEN, {"deviceId": devices[-1]["deviceId"]}) is None
    await bench.wait_for_function("heard.length > 3")
    await bench.evaluate("microphone.stop()")


async def test_a_page_that_is_not_secure(open_page: OpenPage, site: str) -> None:
    """A page that is not secure gets no microphone, and the message says what is needed."""
    page = await open_page(expected=[r"spoke to http://insecure\.localtest", "console:", "uncaught"])
    await page.goto(site.replace("127.0.0.1", "insecure.localtest") + "/healthz")
    error = await page.evaluate(
        """async (site) => {
            const {Microphone} = await import(`${site}/microphone.js`);
            return new Microphone().start().then(() => null, ({code, message}) => ({code, message}));
        }""",
        site.replace("127.0.0.1", "insecure.localtest"),
    )
    assert error["code"] == "insecure_page"
    assert "https" in error["message"]


async def test_a_device_that_goes_away(open_browser: OpenBrowser, open_bench: OpenPage) -> None:
    """Sound until the disconnection is delivered, and the page is told about it."""
    bench = await open_bench(browser=await open_browser("talk.flac", lead_s=0.0))
    # A browser has no way to unplug a device, so the test sends the event that it would send.
    await bench.evaluate(
        """() => {
            const original = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = async (wanted) => (globalThis.stream = await original(wanted));
        }"""
    )
    await bench.evaluate(OPEN, {})
    await bench.wait_for_function("heard.length > 10")
    told = await bench.evaluate(
        """async () => {
            const [track] = stream.getTracks();
            track.stop();
            track.dispatchEvent(new Event("ended"));
            const {reason} = await ended;
            return {reason, running: microphone.running};
        }"""
    )
    assert told == {"reason": "The microphone was disconnected.", "running": False}


async def test_a_chunk_has_a_sensible_length(bench: Page) -> None:
    """A chunk must have 20 to 100 ms."""
    for wrong in (10, 200, None):
        assert (await bench.evaluate(OPEN, {"chunkMs": wrong}))["name"] == "RangeError"
