"""The fixtures themselves: what they accept and what they report."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser

from tests.web.browsing import Watch
from tests.web.conftest import OpenBrowser, OpenPage

LOUDEST = """async (seconds) => {
    const audio = {echoCancellation: false, autoGainControl: false};
    const stream = await navigator.mediaDevices.getUserMedia({audio});
    const context = new AudioContext();
    await context.resume();
    const analyser = new AnalyserNode(context, {fftSize: 2048});
    context.createMediaStreamSource(stream).connect(analyser);
    const block = new Float32Array(2048);
    const peaks = [];
    for (let i = 0; i < seconds * 10; i++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        analyser.getFloatTimeDomainData(block);
        peaks.push(block.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0));
    }
    stream.getTracks().forEach((track) => track.stop());
    return peaks;
}"""


async def test_the_microphone_plays_a_recording(open_browser: OpenBrowser, open_page: OpenPage) -> None:
    """The microphone plays silence, then speech, and silence again."""
    page = await open_page("/", browser=await open_browser("airplane.mp3", lead_s=1.5))
    peaks = await page.evaluate(LOUDEST, 7)
    assert max(peaks[:8]) < 0.01
    assert max(peaks[15:45]) > 0.05
    assert max(peaks[-10:]) < 0.01


async def test_complaints_are_noticed(browser: Browser, elsewhere: tuple[str, Path]) -> None:
    """Errors on the console, uncaught exceptions and other machines are complaints, unless they are expected."""
    site, folder = elsewhere
    (folder / "index.html").write_text(
        "<script>console.error('first'); console.error('second'); setTimeout(() => { throw Error('third'); })</script>"
        "<img src='http://192.0.2.1/fourth'><script>setTimeout(() => Promise.reject(Error('fifth')))</script>"
    )
    context = await browser.new_context()
    watch = Watch(context, ["second"])
    page = await context.new_page()
    await page.goto(site, wait_until="commit")
    await page.wait_for_timeout(500)
    await context.close()
    text = "\n".join(watch.complaints)
    assert [word for word in ("first", "second", "third", "fourth", "fifth") if word in text] == [
        "first",
        "third",
        "fourth",
        "fifth",
    ]
