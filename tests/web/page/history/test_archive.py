"""Saved transcripts: opened with their sound, and the whole history in one file and back."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.async_api import Page, expect

from streamer.base.saved_transcript import read_transcripts
from tests.web.conftest import OpenPage
from tests.web.visitor import doing, drop, said, words, write, written


async def save(page: Page, button: str, folder: Path, item: str = "") -> Path:
    """Save with this button, and return the file."""
    async with page.expect_download() as saving:
        await page.get_by_role("button", name=button, exact=True).click()
        if item:
            await page.get_by_role("menuitem", name=item).click()
    saved = await saving.value
    await saved.save_as(folder / saved.suggested_filename)
    return folder / saved.suggested_filename


async def test_a_saved_transcript_is_opened(open_page: OpenPage, tmp_path: Path) -> None:
    """The page opens its own JSON, with the sound that is dropped beside it, and shows what it was."""
    page = await open_page("/")
    text = await write(page, "talk.wav", "red green blue", "black white")
    before = await words(page)
    path = await save(page, "Save", tmp_path, "Words and times .json")
    await page.click("#clear")
    await drop(page, path.read_bytes(), "talk.json", **{"talk.wav": said("red green blue", "black white")})
    await expect(page.locator("#finals > p")).to_have_count(2)
    assert (await written(page), await words(page)) == (text, before)
    await expect(page.get_by_label("Name of the transcript")).to_have_value("talk")
    await expect(page.locator("#stopped")).to_be_hidden()
    await page.locator("#finals .word").nth(1).click()
    await expect(page.locator(".word.heard")).to_have_text("green")
    await page.click("#clear")
    await drop(page, path.read_bytes(), "talk.json")
    async with page.expect_file_chooser():
        await page.get_by_role("button", name="Choose its sound").click()
    await drop(page, b'{"segments":[{"text":3}]}', "broken.json")
    await expect(page.locator("#notice")).to_contain_text("broken.json has no “text” in segment 1.")
    assert await written(page) == text


async def test_the_history_in_one_file(open_page: OpenPage, tmp_path: Path) -> None:
    """The whole history is saved in a file, which another browser takes in once, and which the command line reads."""
    page = await open_page("/")
    await write(page, "first.wav", "apples are red")
    await page.locator("#finals .word").first.dblclick()
    await page.keyboard.type("Pears")
    await page.keyboard.press("Enter")
    await write(page, "second.wav", "nothing else")
    await page.click("#history-open")
    path = await save(page, "Save all in one file", tmp_path)
    transcripts = read_transcripts(path.read_text(), path.name)
    assert [each.text for each in transcripts] == ["Nothing else", "Pears are red"]
    assert all(each.complete for each in transcripts)
    other = await open_page("/", alone=True)
    await other.locator("body[data-ready]").wait_for()
    for message in ("2 transcripts came into the history, 0 were", "0 transcripts came into the history, 2 were"):
        await drop(other, path.read_bytes(), path.name)
        await expect(other.locator("#notice")).to_contain_text(message)
    await other.click("#history-open")
    await expect(other.locator("#kept b")).to_have_text(["second", "first"])
    await other.locator("button.kept").nth(1).click()
    await expect(other.locator("#finals")).to_contain_text("Pears are red")
    await doing(other, "nothing")
    assert json.loads(path.read_text())[0]["name"] == "second"
