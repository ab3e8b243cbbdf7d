"""The page with forced colours, as contrast themes of Windows have them: pictures of what must differ, and does."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import pytest_asyncio
from numpy.typing import NDArray
from playwright.async_api import Browser, FloatRect, Locator, Page, expect

from streamer.bridge.service import Service
from tests.web.visitor import write

# A picture is decoded by the browser itself.
DECODE: Final = """async (png) => {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
    const pen = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    pen.drawImage(picture, 0, 0);
    const {data} = pen.getImageData(0, 0, picture.width, picture.height);
    let text = "";
    for (const value of data) text += String.fromCharCode(value);
    return [picture.height, picture.width, btoa(text)];
}"""
# So many of 255 that the weakest eye sees a difference.
CLEAR: Final = 60
Picture = NDArray[np.uint8]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(browser: Browser, service: Service) -> AsyncIterator[Page]:
    """A page with a transcript, in forced colours, for all tests here."""
    context = await browser.new_context(forced_colors="active", reduced_motion="reduce")
    opened = await context.new_page()
    await opened.goto(f"http://{urlsplit(service.url).netloc}")
    await write(opened, "words.wav", "some words")
    yield opened
    await context.close()


async def picture(place: Locator) -> Picture:
    """The pixels of an element, and of a line below it: rows, columns, colours."""
    await place.scroll_into_view_if_needed()
    box = await place.bounding_box()
    assert box
    clip: FloatRect = {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"] + 4}
    png = base64.b64encode(await place.page.screenshot(clip=clip)).decode()
    height, width, content = await place.page.evaluate(DECODE, png)
    return np.frombuffer(base64.b64decode(content), np.uint8).reshape(height, width, 4)[:, :, :3]


def differing(one: Picture, other: Picture) -> float:
    """The share of pixels that clearly differ."""
    assert one.shape == other.shape
    return float((np.abs(one.astype(int) - other).max(axis=2) > CLEAR).mean())


async def changed(place: Locator, script: str, argument: Any = None) -> float:
    """The share of pixels of an element that this script, which gets the element, clearly changes."""
    before = await picture(place)
    await place.evaluate(script, argument)
    return differing(before, await picture(place))


async def test_switches(page: Page) -> None:
    """A switch that is on differs from one that is off, also while it cannot be changed."""
    await page.click("#options-open")
    for disabled in (False, True):
        await page.locator("#dictation").evaluate("(one, disabled) => { one.disabled = disabled; }", disabled)
        flipped = await changed(page.locator("#dictation"), "one => { one.checked = !one.checked; }")
        assert flipped > 0.2, f"disabled: {disabled}"
    await page.keyboard.press("Escape")


async def test_a_firm_button(page: Page) -> None:
    """The words on the button that ends a dialog can be read: others in their place look different."""
    await page.click("#options-open")
    done = page.locator("#options .firm")
    assert await changed(done, "one => { one.textContent = 'enoD'; }") > 0.01
    await done.evaluate("one => { one.textContent = 'Done'; }")
    await page.keyboard.press("Escape")


async def test_the_chosen_one_of_a_choice(page: Page) -> None:
    """The chosen pace differs from the other one in most of its area."""
    assert await changed(page.locator("#pace span").last, "one => { one.previousElementSibling.checked = true; }") > 0.5


async def test_meters(page: Page) -> None:
    """The level of the microphone and the progress of a recording are visible, and so are their ends."""
    for name, value in (("#level", "--level"), ("#progress i", "--far")):
        meter = page.locator(name)
        await meter.evaluate("one => { one.hidden = one.closest('#stage, #progress').hidden = false; }")
        fill = f"(one, value) => one.style.setProperty('{value}', value)"
        await meter.evaluate(fill, 0)
        empty = await picture(meter)
        assert differing(empty[:1], empty[3:4]) > 0.5, f"{name} has no edge"
        assert 0.2 < await changed(meter, fill, 0.5) < 0.7, name


async def test_the_button_to_speak(page: Page) -> None:
    """The button has an edge, and is filled while it listens."""
    button = page.locator("#speak")
    still = await picture(button)
    middle = still.shape[0] // 2
    edge = np.abs(still[middle, :4].astype(int) - still[1, 1]).max()
    assert edge > CLEAR
    await page.click("#speak")
    await expect(page.locator("#state")).to_have_text("Listening")
    await page.mouse.move(5, 5)
    assert differing(still, await picture(button)) > 0.4
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+z")  # brings the transcript back


async def test_words(page: Page) -> None:
    """A word that may still change, a doubtful one and one that is heard differ from a final one."""
    word = page.locator("#finals .word").last
    for name, share in (("open", 0.02), ("doubtful", 0.02), ("heard", 0.4)):
        assert await changed(word, "(one, name) => one.classList.add(name)", name) > share, name
        await word.evaluate("(one, name) => one.classList.remove(name)", name)
