"""The page tells speakers apart: it shows them in the text, names them, keeps them, and writes them into files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from tests.bridge.uploads.uploading import recording
from tests.engine.speakers.talks import conversation
from tests.shared_servers import serving
from tests.web.conftest import OpenPage
from tests.web.visitor import PATIENCE_MS, doing, drop, saved


@pytest.fixture(scope="module")
def telling() -> Iterator[Service]:
    """A service that tells speakers apart, with the real networks."""
    with TritonServer(asr_repository(), models=[MODEL], speakers=True) as server, serving(server) as service:
        yield service


async def speakers(page: Page) -> list[str]:
    """Who speaks, in the order of the text, without repetition."""
    names = await page.locator("#finals .who").all_inner_texts()
    return [name.strip() for at, name in enumerate(names) if at == 0 or name != names[at - 1]]


async def told_apart(telling: Service, open_page: OpenPage) -> Page:
    """A page that shows a conversation of two, whose voices the service has told apart."""
    page = await open_page(telling.url.replace("ws", "http", 1).rpartition("/v1/")[0])
    await page.click("#options-open")
    await page.get_by_label("Speakers", exact=True).select_option("2")
    await page.keyboard.press("Escape")
    await drop(page, recording(conversation()[0]), "talk.wav")
    await expect(page.locator("#finals .who").first).to_be_visible(timeout=PATIENCE_MS)
    await doing(page, "nothing")
    return page


async def test_speakers_are_shown_and_named(telling: Service, open_page: OpenPage) -> None:
    """With the option, the text shows who speaks; names stay in the history, in files, and can be undone."""
    page = await told_apart(telling, open_page)
    turns = ["Speaker 1", "Speaker 2", "Speaker 1", "Speaker 2"]
    assert await speakers(page) == turns
    await page.get_by_role("button", name="Segment").click()
    await page.get_by_role("menuitem", name="Name who speaks").click()
    await page.get_by_label("Speaker 2").fill("Roger")
    await page.keyboard.press("Enter")
    assert await speakers(page) == ["Speaker 1", "Roger", "Speaker 1", "Roger"]
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    assert await speakers(page) == ["Speaker 1", "Roger", "Speaker 1", "Roger"]
    text = await saved(page, "Text .txt")
    assert [paragraph.split("]")[0] for paragraph in text.split("\n\n")][:2] == ["[1", "[Roger"]
    assert "<v Roger>" in await saved(page, "Web subtitles .vtt")
    await page.get_by_role("button", name="Segment").click()
    await page.get_by_role("menuitem", name="Name who speaks").click()
    await page.get_by_label("Speaker 2").fill("")
    await page.keyboard.press("Enter")
    assert await speakers(page) == turns
    await page.keyboard.press("Control+z")
    await expect(page.locator("#finals .who.other").first).to_have_text("Roger")


async def test_the_keyboard_names_a_speaker(telling: Service, open_page: OpenPage) -> None:
    """Keys alone lead to the names, each field has its label, and each name is text before the words, not a colour."""
    page = await told_apart(telling, open_page)
    await page.get_by_role("button", name="Segment").focus()
    await page.keyboard.press("Enter")
    item = page.get_by_role("menuitem", name="Name who speaks")
    for _ in range(await page.get_by_role("menuitem").count()):
        if await item.evaluate("(item) => item === document.activeElement"):
            break
        await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.get_by_label("Speaker 1")).to_be_focused()
    await page.keyboard.type("Ada")
    await page.keyboard.press("Tab")
    await page.keyboard.type("Roger")
    await page.keyboard.press("Enter")
    assert await speakers(page) == ["Ada", "Roger", "Ada", "Roger"]
    read = await page.locator("#finals").aria_snapshot()
    assert read.index("Ada") < read.index("Roger")
