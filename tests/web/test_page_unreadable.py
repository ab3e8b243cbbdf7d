"""Recordings that the page cannot read, or not to their end: it says why, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.visitor import doing, drop, said, written

HOLD = """() => {
    const field = document.getElementById("file");
    const hold = (event) => event.stopImmediatePropagation();
    field.addEventListener("change", hold, true);
    globalThis.release = () => {
        field.removeEventListener("change", hold, true);
        field.dispatchEvent(new Event("change"));
    };
}"""
GONE = "cannot be read: it was moved, changed or removed after it was chosen"


async def choose(page: Page, *files: Path) -> None:
    """Choose files of this machine."""
    await page.locator("#file").set_input_files(files)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "talk.wav is empty. If it is still being copied or recorded, choose it again afterwards."),
        (b"<!doctype html><h1>404</h1>", "talk.wav is a text, and no recording. A download that failed leaves such"),
        (bytes(range(256)) * 9, "talk.wav has no sound that this browser can decode: it is damaged, or of"),
    ],
)
async def test_nothing_of_it(open_page: OpenPage, content: bytes, why: str) -> None:
    """The message says what is wrong with the file, is read aloud, and offers to choose another one."""
    page = await open_page("/")
    await drop(page, content)
    await expect(page.locator("#notice h2")).to_have_text("This file cannot be read")
    await expect(page.locator("#notice p").first).to_contain_text(why)
    await expect(page.locator("#alarm")).to_contain_text(why)
    async with page.expect_file_chooser():
        await page.get_by_role("button", name="Choose a recording").click()


def _remove(file: Path) -> None:
    file.unlink()


def _change(file: Path) -> None:
    file.write_bytes(said("something else"))


@pytest.mark.parametrize("name", ["talk.wav", "talk.json"])
@pytest.mark.parametrize("do", [_remove, _change])
async def test_gone_since_it_was_chosen(
    open_page: OpenPage, tmp_path: Path, do: Callable[[Path], None], name: str
) -> None:
    """A file that is not any more what was chosen is told from one without sound, or without a transcript."""
    page = await open_page("/")
    file = tmp_path / name
    file.write_bytes(said("what was chosen"))
    # The page gets the file when it is gone: nobody is fast enough to remove it between the choice and the reading.
    await page.evaluate(HOLD)
    await choose(page, file)
    do(file)
    await page.evaluate("release()")
    await expect(page.locator("#notice p").first).to_contain_text(f"{name} {GONE}")
    await expect(page.locator("#notice p").first).to_contain_text("Choose it again.")


async def test_gone_in_the_middle(open_page: OpenPage, tmp_path: Path) -> None:
    """The words so far stay, a message says why it ended, and the transcript goes on when the file is chosen again."""
    page = await open_page("/")
    await page.get_by_label("As spoken").check()
    file = tmp_path / "talk.wav"
    content = said("the first sentence", "the second one", "a third for the end")
    file.write_bytes(content)
    await choose(page, file)
    await expect(page.locator("#finals p")).to_have_count(1)
    file.unlink()
    await expect(page.locator("#notice h2")).to_have_text("The recording cannot be read to its end")
    await expect(page.locator("#notice p").first).to_contain_text(f"talk.wav {GONE}")
    await doing(page, "nothing")
    assert (await written(page)).startswith("The first sentence")
    await page.get_by_label("Fast").check()
    file.write_bytes(content)
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Choose it again").click()
    await (await choosing.value).set_files(file)
    await expect(page.locator("#finals")).to_contain_text("A third for the end")
    await doing(page, "nothing")
    assert await written(page) == "The first sentence The second one A third for the end"
    await expect(page.locator("#notice")).to_be_hidden()
    await expect(page.locator("#stopped")).to_be_hidden()


async def test_gone_in_the_middle_of_several(open_page: OpenPage, tmp_path: Path) -> None:
    """The others are transcribed, and the end of the series says what happened to this one."""
    page = await open_page("/")
    await page.get_by_label("As spoken").check()
    files = [tmp_path / "a.wav", tmp_path / "b.wav"]
    files[0].write_bytes(said("the first sentence", "the second one", "a third for the end"))
    files[1].write_bytes(said("the other"))
    await choose(page, *files)
    await expect(page.locator("#finals p")).to_have_count(1)
    files[0].unlink()
    await expect(page.locator("#notice h2")).to_have_text("1 of 2 recordings are transcribed")
    await expect(page.locator("#notice p").first).to_contain_text(f"a.wav {GONE}")
    assert await written(page) == "The other"
