"""A page for reading, opened from disk: it plays words, follows the sound and searches, by keyboard too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from streamer.audio.playable import MP3, mp3_of
from streamer.base.reading_page import TEMPLATE, Sound
from streamer.base.saved_transcript import read_transcripts
from streamer.base.transcript import Transcript, render_page
from tests.project import ROOT, SAMPLES
from tests.transcript_events import final, speech, word
from tests.web.conftest import OpenPage
from tests.web.visitor import FAINT, doing, drop, said

CASES = json.loads((ROOT / "tests/base/transcript_cases.json").read_text(encoding="utf-8"))
FIRST = final(word("How", 400, 700), word("are", 700, 1000), word("you?", 1000, 1300))
SECOND = final(*speech(8, start_ms=9_000, text="We"), word("are.", 11_500, 12_000))
PLACE = "() => document.querySelector('audio').currentTime"


def written(folder: Path, *finals: dict[str, object], sound: Sound | None = None) -> str:
    """Write a page with these finals, and return its address on disk."""
    transcript = Transcript("talk.flac")
    for event in (*finals, {"type": "done", "audio_ms": 20_000}):
        transcript.add(event)
    path = folder / "talk.html"
    path.write_text(render_page(transcript, sound), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def sound() -> Sound:
    """The sound of a recording."""
    return Sound(MP3, mp3_of(str(SAMPLES / "talk.flac")))


@pytest_asyncio.fixture(loop_scope="session")
async def talk(open_page: OpenPage, tmp_path: Path, sound: Sound) -> Page:
    """A page with two paragraphs and their sound."""
    return await open_page(written(tmp_path, FIRST, SECOND, sound=sound))


async def test_a_word_plays(talk: Page) -> None:
    """A click on a word plays the sound from there; the word that is heard is marked, and no other."""
    await talk.get_by_text("you?", exact=True).click()
    await expect(talk.locator(".now")).to_have_text("you?")
    assert 1.0 <= await talk.evaluate(PLACE) < 8.0
    await talk.get_by_role("button", name="Play from 0:09").click()
    await talk.wait_for_function("() => document.querySelector('audio').currentTime >= 9")
    await expect(talk.locator(".now")).to_have_text("We")
    await talk.keyboard.press("Tab")  # away from the button, so that the space bar is for the page
    await talk.keyboard.press("Space")
    await talk.wait_for_function("() => document.querySelector('audio').paused")


async def test_the_keyboard_goes_from_word_to_word(talk: Page) -> None:
    """Tab leads to one word, arrow keys to the others, and Enter plays from there."""
    await talk.locator("[data-to]").first.focus()
    for key, now in (("ArrowRight", "are"), ("End", "are."), ("Home", "How"), ("ArrowLeft", "How")):
        await talk.keyboard.press(key)
        await expect(talk.locator(":focus")).to_have_text(now)
    await talk.keyboard.press("ArrowRight")
    await talk.keyboard.press("Enter")
    await talk.wait_for_function("() => document.querySelector('audio').currentTime >= 0.7")
    assert await talk.locator("[data-to][tabindex='0']").all_inner_texts() == ["are"]


async def test_search_finds_places_across_words(talk: Page) -> None:
    """What is sought is marked and counted, whatever its capitals; Enter goes from place to place, and it is told."""
    field = talk.get_by_role("searchbox", name="Search")
    await field.fill("ARE")
    await expect(talk.get_by_role("status")).to_have_text("2 places")
    await field.press("Enter")
    await expect(talk.get_by_role("status")).to_have_text("1 of 2: are")
    await field.press("Enter")
    await expect(talk.get_by_role("status")).to_have_text("2 of 2: are.")
    await expect(talk.locator(".here")).to_have_text("are.")
    await field.press("Shift+Enter")
    await expect(talk.locator(".here")).to_have_text("are")
    await field.fill("how are you")
    assert await talk.locator(".found").all_inner_texts() == ["How", "are", "you?"]
    await field.fill("nowhere")
    await expect(talk.get_by_role("status")).to_have_text("no places")
    await field.press("Escape")
    await expect(talk.locator(".found")).to_have_count(0)


async def test_chapters_lead_to_their_text(open_page: OpenPage, tmp_path: Path) -> None:
    """Without sound there is no player, times are plain text, and chapters are headings with links to them."""
    long = final(*speech(240, text="Long."))
    page = await open_page(written(tmp_path, long, final(*speech(40, start_ms=90_000, text="Late"))))
    await page.get_by_role("link", name="1:30 Late").click()
    await expect(page.get_by_role("heading", name="1:30 Late")).to_be_in_viewport()
    assert await page.locator("audio").is_hidden()
    assert await page.get_by_role("button").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_contrast(open_page: OpenPage, tmp_path: Path, sound: Sound, scheme: str) -> None:
    """Every text has enough contrast, marked words too, in light and dark, and on a phone nothing is cut off."""
    address = written(tmp_path, FIRST, SECOND, sound=sound)
    page = await open_page(address, color_scheme=scheme, viewport={"width": 390, "height": 740})
    await page.get_by_role("searchbox").fill("are")
    await page.get_by_text("you?", exact=True).click()
    await expect(page.locator(".now")).to_have_text("you?")
    found = await page.evaluate(FAINT)
    assert (found["looked"] > 10, found["faint"]) == (True, [])
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


async def test_the_page_writes_the_same_file(shared_bench: Page) -> None:
    """The service's page makes of each transcript the file that the command line makes of it."""
    made = await shared_bench.evaluate(
        """async ([cases, template]) => {
            const {readingPage} = await load("page/transcript/reading-page");
            const {readTranscripts} = await load("page/transcript/saved");
            return JSON.stringify(JSON.parse(cases).map(({json}) => {
                const [transcript] = readTranscripts(JSON.stringify(json), "case.json");
                return readingPage(template, transcript, {type: 'audio/mpeg"', content: "c291bmQ="});
            }));
        }""",
        [json.dumps(CASES), TEMPLATE.read_text(encoding="utf-8")],
    )
    for case, page in zip(CASES, json.loads(made), strict=True):
        [transcript] = read_transcripts(json.dumps(case["json"]), "case.json")
        assert page == render_page(transcript, Sound('audio/mpeg"', b"sound")), case["name"]


async def test_a_sheet_is_saved_with_its_sound(open_page: OpenPage, site: str, tmp_path: Path) -> None:
    """The page saves what it has transcribed with its sound, in one file that plays when it is opened from disk."""
    page = await open_page(site)
    await drop(page, said("these words can be heard"))
    await doing(page, "nothing")
    await page.get_by_role("button", name="Save").click()
    async with page.expect_download() as saving:
        await page.get_by_role("menuitem", name="Page with the sound").click()
    download = await saving.value
    path = tmp_path / download.suggested_filename
    await download.save_as(path)
    await expect(page.locator("#spoken")).to_have_text(f"Saved as {path.name}.")
    opened = await open_page(path.as_uri())
    await opened.get_by_text("heard", exact=True).click()
    await opened.wait_for_function("() => document.querySelector('audio').currentTime > 0.5")
