"""Several recordings at once, silence, and a service that cannot be reached."""

from __future__ import annotations

import base64
import io
from urllib.parse import urlsplit

import numpy as np
import soundfile
from playwright.async_api import expect

from streamer.bridge.service import Service
from streamer.testing import silence
from streamer.testing.faulty_proxy import proxy
from tests.web.conftest import OpenPage
from tests.web.visitor import NOBODY, PATIENCE_MS, doing, drop, said, write


async def test_one_after_the_other(open_page: OpenPage) -> None:
    """Each recording gets its own sheet in the history; unreadable files are named at the end."""
    page = await open_page("/")
    await drop(page, said("the first"), "a.wav", **{"b.wav": b"no sound", "c.wav": said("the third")})
    await expect(page.locator("#notice h2")).to_have_text("2 of 3 recordings are transcribed", timeout=PATIENCE_MS)
    await expect(page.locator("#notice")).to_contain_text("b.wav")
    await page.get_by_role("button", name="Open the history").click()
    await expect(page.locator("#kept b")).to_have_text(["c", "a"])


async def test_each_alone(open_page: OpenPage) -> None:
    """An unreadable recording, and a good one later, are not two that are transcribed."""
    page = await open_page("/")
    await drop(page, b"no sound", "a.wav")
    await expect(page.locator("#notice h2")).to_have_text("This file cannot be read")
    await write(page, "b.wav", "the good one")
    await expect(page.locator("#notice")).to_be_hidden()
    await drop(page, said("the third"), "c.wav", **{"d.wav": said("the fourth")})
    await expect(page.locator("#notice")).to_contain_text("2 recordings are transcribed", timeout=PATIENCE_MS)


async def test_the_rest_waits(open_page: OpenPage) -> None:
    """If the user stops the first recording, the page asks about the others."""
    page = await open_page("/")
    await page.get_by_label("As spoken").check()
    await drop(page, said("a long sentence that takes its time"), "a.wav", **{"b.wav": said("b")})
    await expect(page.locator("#progress")).to_contain_text("1 of 2")
    await expect(page.locator("#partial .word").first).to_be_visible(timeout=PATIENCE_MS)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Go on with the next").click(timeout=PATIENCE_MS)
    await expect(page.locator("#finals .word")).to_have_text(["B"], timeout=PATIENCE_MS)


async def test_a_silent_recording(open_page: OpenPage) -> None:
    """A silent recording is reported, and the microphone is not blamed."""
    page = await open_page("/")
    file = io.BytesIO()
    soundfile.write(file, np.zeros_like(silence(900)), 16_000, "PCM_16", format="WAV")
    await drop(page, file.getvalue(), "silence.wav")
    await expect(page.locator("#notice h2")).to_have_text("The recording is silent", timeout=PATIENCE_MS)
    await expect(page.locator("#notice")).to_contain_text("silence.wav")
    assert "microphone" not in await page.locator("#notice").inner_text()


async def test_two_hours(open_page: OpenPage) -> None:
    """A recording of two hours is opened at once, shows progress, and can be stopped; the words stay."""
    page = await open_page("/")
    await page.evaluate(
        """async (bytes) => {
            const content = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
            const [header, sound] = [content.slice(0, 44), content.slice(44)];
            const count = Math.ceil(7200 * 32000 / sound.length);
            new DataView(header.buffer).setUint32(40, count * sound.length, true);
            const part = new Blob([sound]);
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([header, ...Array(count).fill(part)], "long.wav"));
            document.body.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
        }""",
        base64.b64encode(said("on and on")).decode(),
    )
    await expect(page.locator("#finals p").nth(3)).to_be_visible(timeout=PATIENCE_MS)
    await expect(page.locator("#length")).to_have_text("2:00:00")
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "0")
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    await expect(page.locator("#finals")).to_contain_text("On and on")


async def test_the_service_is_gone(open_page: OpenPage, service: Service) -> None:
    """A user who wants to speak learns that the service cannot be reached; the microphone is not blamed."""
    async with proxy(urlsplit(service.url).netloc) as (address, cut):
        page = await open_page(f"http://{address}/", expected=[*NOBODY, "worklet"])
        await page.locator("body[data-ready]").wait_for()
        await cut(for_good=True)
        await page.click("#speak")
        await expect(page.locator("#notice h2")).to_have_text("The service cannot be reached", timeout=PATIENCE_MS)
