"""The size of the text, and the large view."""

from __future__ import annotations

from playwright.async_api import expect

from tests.web.conftest import OpenPage
from tests.web.visitor import doing, drop, said, write

SIZE = "parseFloat(getComputedStyle(document.querySelector('#finals .segment')).fontSize)"


async def test_sizes(open_page: OpenPage) -> None:
    """The text is as large as the user wants, also after a reload. Escape ends the large view of only words."""
    page = await open_page("/")
    await write(page, "words.wav", "these are words")
    usual = await page.evaluate(SIZE)
    await page.click("#options-open")
    await page.get_by_label("Text", exact=True).select_option("huge")
    await page.keyboard.press("Escape")
    assert await page.evaluate(SIZE) > 1.5 * usual
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    huge = await page.evaluate(SIZE)
    assert huge > 1.5 * usual
    await page.get_by_role("button", name="Large view").click()
    assert await page.evaluate(SIZE) > 1.5 * huge
    await expect(page.locator("#dock")).to_be_hidden()
    await expect(page.locator("#finals")).to_be_visible()
    await page.get_by_label("As spoken", exact=True).evaluate("one => one.click()")
    await drop(page, said("new words come", "in the large view"))
    await expect(page.locator("#partial .word").first).to_be_in_viewport()
    await page.keyboard.press("Escape")
    await expect(page.locator("#dock")).to_be_visible()
    await doing(page, "transcribing")
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
