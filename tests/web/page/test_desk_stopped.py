"""A recording that is stopped before its end: the page says so, and goes on there with the same words."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import FilePayload, Page, expect

from tests.web.conftest import OpenPage
from tests.web.visitor import PATIENCE_MS, doing, drop, said, written

SENTENCES = ("this is the first", "the second one is longer than that", "and here is a third", "nothing more")
ALL = "This is the first The second one is longer than that And here is a third Nothing more"


async def begun(page: Page, name: str = "talk.wav") -> None:
    """Begin a recording at the pace of speech, and wait until its second sentence is half said."""
    await page.get_by_label("As spoken").check()
    await drop(page, said(*SENTENCES, pause_ms=1100), name)
    await expect(page.locator("#finals")).to_contain_text("This is the first", timeout=PATIENCE_MS)
    await expect(page.locator("#partial .word").nth(2)).to_be_visible(timeout=PATIENCE_MS)


async def record(page: Page) -> dict[str, Any]:
    """What the browser keeps of the only transcript."""
    return dict(
        await page.evaluate(
            """() => new Promise((resolve) => {
                indexedDB.open("streamer").onsuccess = ({target: {result}}) => {
                    const records = result.transaction("records").objectStore("records");
                    records.getAll().onsuccess = ({target}) => { result.close(); resolve(target.result[0]); };
                };
            })"""
        )
    )


async def test_stopped_and_continued(open_page: OpenPage) -> None:
    """Esc stops: the sheet, its record and the history say where, and Continue brings the words of one go."""
    page = await open_page("/")
    await begun(page)
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    stopped = page.locator("#stopped")
    await expect(stopped.locator("p")).to_have_text(re.compile(r"^Stopped at 0:0\d of 0:\d\d\.$"))
    assert "third" not in await written(page)
    assert (await record(page))["complete"] is False
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_role("menuitem", name="Text .txt").click()
    text = (await (await saving.value).path()).read_text()
    assert re.search(r"\n\n\[stopped at 0:0\d of 0:\d\d\]\n$", text)
    await page.click("#history-open")
    await expect(page.locator("#kept small")).to_contain_text(re.compile(r"stopped at 0:0\d of 0:\d\d"))
    await page.keyboard.press("Escape")
    await page.get_by_label("Fast").check()
    await page.get_by_role("button", name="Continue").click()
    await expect(page.locator("#finals")).to_contain_text("Nothing more", timeout=PATIENCE_MS)
    await doing(page, "nothing")
    assert await written(page) == ALL
    await expect(stopped).to_be_hidden()
    starts = await page.locator("#finals .word").evaluate_all("all => all.map((word) => Number(word.dataset.start))")
    assert starts == sorted(starts)
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    assert await written(page) == ALL
    await expect(stopped).to_be_hidden()


async def test_continued_after_a_reload(open_page: OpenPage) -> None:
    """After a reload the last word is a whole one, and the page goes on when the same recording is chosen again."""
    page = await open_page("/")
    await begun(page)
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    await expect(page.locator("#stopped")).to_contain_text(re.compile(r"Stopped at 0:0\d of .*choose talk.wav again"))
    shown = (await written(page)).split()
    assert 4 <= len(shown) < len(ALL.split())
    assert shown == ALL.split()[: len(shown)]
    await page.get_by_label("Fast").check()
    for content, name in ((said("another one"), "talk.wav"), (said(*SENTENCES, pause_ms=1100), "renamed.wav")):
        async with page.expect_file_chooser() as choosing:
            await page.get_by_role("button", name=re.compile("Continue|Choose it again")).first.click()
        await (await choosing.value).set_files(FilePayload(name=name, mimeType="audio/wav", buffer=content))
        if name == "talk.wav":
            await expect(page.locator("#notice h2")).to_have_text("This is another recording")
    await expect(page.locator("#finals")).to_contain_text("Nothing more", timeout=PATIENCE_MS)
    await doing(page, "nothing")
    assert await written(page) == ALL
    await expect(page.locator("#notice")).to_be_hidden()
