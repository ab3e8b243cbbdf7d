"""A recording on the page: opened, transcribed, played with its words, copied and saved."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, WebSocketRoute, expect

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.base.transcript import Transcript
from streamer.bridge.service import Service
from streamer.client import transcribe
from streamer.testing import say
from streamer.wire.options import with_second_pass
from tests.bridge.service_client import Event
from tests.project import SAMPLES
from tests.samples import TWO_SEGMENTS_S, pcm, reference
from tests.web.browsing import Watch
from tests.web.conftest import OpenPage
from tests.web.visitor import (
    PATIENCE_MS,
    doing,
    drop,
    listened,
    place,
    said,
    seconds,
    transcribed,
    wave_file,
    words,
    write,
    written,
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def told(shipped_service: Service) -> list[Event]:
    """The events that the command line gets for the talk."""
    sound = pcm("talk.flac", TWO_SEGMENTS_S)
    options = with_second_pass({"written": True})
    told: list[Any] = [event async for event in transcribe([sound], shipped_service.url, options=options)]
    return told


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def talk_page(browser: Browser, shipped_site: str) -> AsyncIterator[Page]:
    """A page on which the shipped model has transcribed the talk, for tests that look at the words and play them."""
    context = await browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(60_000)
    watch = Watch(context)
    page = await context.new_page()
    await page.goto(shipped_site)
    await expect(page.locator("#copy")).to_be_disabled()
    await expect(page.locator("#save")).to_be_disabled()
    assert await drop(page, wave_file("talk.flac", TWO_SEGMENTS_S)) == [True, True, False]
    await doing(page, "transcribing")
    await expect(page.locator("#latency")).to_contain_text("as spoken", timeout=PATIENCE_MS)
    await doing(page, "nothing")
    yield page
    await context.close()
    assert watch.complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def talk_sheet(talk_page: Page) -> Page:
    """The same page as if nobody had used it since: nothing is played, marked, pointed at or focused."""
    await talk_page.keyboard.press("Escape")
    await expect(talk_page.locator("#play")).to_have_attribute("aria-label", "Play")
    await talk_page.mouse.move(5, 5)
    await talk_page.evaluate("document.activeElement.blur()")
    return talk_page


async def test_a_dropped_file_is_written_down(talk_sheet: Page, told: list[Event]) -> None:
    """The page says that a file may be dropped, and then shows the words, times and confidences of the command line."""
    expected = [word for event in told for word in event.get("words", ())]
    shown = await words(talk_sheet)
    assert [word["text"] for word in shown] == [word["word"] for word in expected]
    for found, word in zip(shown, expected, strict=True):
        assert found["start"] == word["start_ms"]
        percent = re.search(r" · (\d+) % sure$", found["told"])
        assert percent
        assert abs(int(percent[1]) - 100 * word["confidence"]) < 1
        assert seconds(found["told"]) == [word["start_ms"] // 100 / 10, word["end_ms"] // 100 / 10]
        assert found["doubtful"] == (word["confidence"] < 0.6)
    assert await talk_sheet.locator("#finals > p").count() == 2


async def test_continued_with_the_same_words(talk_sheet: Page, open_page: OpenPage, shipped_site: str) -> None:
    """A recording that was stopped in the middle of a sentence, and continued, has the words and times of one go."""
    page = await open_page(shipped_site)
    await page.get_by_label("As spoken").check()
    await drop(page, wave_file("talk.flac", TWO_SEGMENTS_S))
    await expect(page.locator("#finals > p")).to_have_count(1, timeout=PATIENCE_MS)
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    await page.get_by_label("Fast").check()
    await page.get_by_role("button", name="Continue").click()
    await expect(page.locator("#stopped")).to_be_hidden()
    await doing(page, "nothing")
    given = [(word["text"], word["start"]) for word in await words(page)]
    assert given == [(word["text"], word["start"]) for word in await words(talk_sheet)]


async def test_unsure_words_are_underlined(open_page: OpenPage, shipped_site: str) -> None:
    """In a recording with much noise, the words of which the recogniser is not sure stand out."""
    page = await open_page(shipped_site)
    await transcribed(page, "talk.flac", noise=0.04)
    shown = await words(page)
    assert {word["doubtful"] for word in shown} == {True, False}
    for word in shown:
        percent = re.search(r" · (\d+) % sure$", word["told"])
        assert percent
        rounded = int(percent[1])
        assert rounded == 60 or word["doubtful"] == (rounded < 60)


async def test_a_chosen_file(open_page: OpenPage, shipped_site: str) -> None:
    """The button opens the dialog for files, and an Opus file is transcribed like any other."""
    page = await open_page(shipped_site)
    async with page.expect_file_chooser() as choosing:
        await page.get_by_text("Open file").click()
    await (await choosing.value).set_files(SAMPLES / "quilter.ogg")
    await doing(page, "nothing")
    await expect(page.locator("#finals")).to_contain_text("the Apostle of", timeout=PATIENCE_MS)
    text = (await written(page)).replace("Mr.", "mister").lower()
    spoken, found = reference("quilter.ogg").split(), re.findall(r"[a-z']+", text)
    assert len(set(spoken) & set(found)) > 0.7 * len(set(spoken))


async def test_paced(open_page: OpenPage) -> None:
    """With `As spoken` the recording is played while the words come; the choice is remembered."""
    page = await open_page("/")
    await page.get_by_label("As spoken").check()
    await page.reload()
    assert await page.get_by_label("As spoken").is_checked()
    began = time.monotonic()
    await drop(page, said("as it is spoken", pause_ms=0))
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    await expect(page.locator("#partial .word").first).to_be_visible()
    assert await place(page) > 0
    await expect(page.locator("#latency")).to_contain_text(re.compile(r"^\d+\.\d s behind"))
    await doing(page, "nothing")
    assert time.monotonic() - began > len(say("as it is spoken")) / SAMPLE_RATE  # longer on a busy machine
    assert await written(page) == "As it is spoken"


async def test_a_model_that_is_loaded_first(open_page: OpenPage, site: str) -> None:
    """While the service loads the model, the page says so; then it transcribes as usual."""
    page = await open_page()
    loaded = asyncio.Event()
    held: list[str | bytes] = []

    async def load_first(websocket: WebSocketRoute) -> None:
        def answer(message: str | bytes) -> None:
            held.append(message)
            if loaded.is_set():
                deliver()

        def deliver() -> None:
            while held:
                websocket.send(held.pop(0))

        websocket.connect_to_server().on_message(answer)
        websocket.send('{"type":"starting","n":0,"model":"chinese"}')
        await loaded.wait()
        deliver()

    await page.route_web_socket("**/v1/stream", load_first)
    await page.goto(site)
    await drop(page, said("up in the sky"))
    await expect(page.locator("#state")).to_have_text("Loading the model chinese")
    loaded.set()
    await expect(page.locator("#finals")).to_contain_text("sky", timeout=PATIENCE_MS)


async def test_stopped_early(open_page: OpenPage) -> None:
    """Audio before Escape is still transcribed, but a word that was cut in two; the rest is not."""
    page = await open_page("/")
    await page.get_by_label("As spoken").check()
    await drop(page, said("a b c " + "and so on " * 20))
    await expect(page.locator("#partial .word").nth(3)).to_be_visible(timeout=PATIENCE_MS)
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    assert 3 <= len((await written(page)).split()) < 60
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Play")


async def test_a_file_without_sound(open_page: OpenPage) -> None:
    """The page says that the file cannot be read, and which can; the earlier transcript stays."""
    page = await open_page("/")
    before = await write(page, "earlier.wav", "the earlier one")
    await drop(page, bytes(range(256)) * 9, "picture.png")
    await expect(page.locator("#notice h2")).to_have_text("This file cannot be read")
    await expect(page.locator("#notice")).to_contain_text("WAV")
    await expect(page.locator("#alarm")).to_contain_text("This file cannot be read")
    assert await written(page) == before
    async with page.expect_file_chooser():
        await page.get_by_role("button", name="Choose a recording").click()


async def test_the_player_and_its_words(talk_sheet: Page) -> None:
    """A click on a word goes there, Enter plays from there, the current word is marked, Space pauses."""
    page = talk_sheet
    shown = await words(page)
    await page.locator("#finals .word").nth(3).click()
    assert abs(await place(page) * 1000 - shown[3]["start"]) < 100
    await expect(page.locator(".word.heard")).to_have_text(shown[3]["text"])
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    await page.keyboard.press("ArrowLeft")
    await listened(page)
    await page.keyboard.press("Enter")
    await page.wait_for_function("() => heard.length > 2")
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    await page.keyboard.press("Space")
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    heard = await page.evaluate("heard")
    assert heard == sorted(heard)
    assert heard[0] == 2
    last = shown[heard[-1]]
    assert last["start"] <= 1000 * await place(page) + 100
    await page.click("#play")
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")
    await page.keyboard.press("Escape")
    await expect(page.locator("#play")).to_have_attribute("aria-label", "Play")


async def test_the_waveform_is_a_slider(talk_sheet: Page) -> None:
    """A click and the arrow keys move in the sound; the waveform and the segments below are drawn."""
    page = talk_sheet
    wave = page.get_by_role("slider", name="Position in the sound")
    box = await wave.bounding_box()
    assert box
    await wave.click(position={"x": box["width"] / 2, "y": 10})
    assert abs(await place(page) - TWO_SEGMENTS_S / 2) < 0.15
    await page.keyboard.press("ArrowRight")
    assert abs(await place(page) - TWO_SEGMENTS_S / 2 - 1) < 0.15
    await page.keyboard.press("Home")
    assert await place(page) == 0
    assert (await wave.get_attribute("aria-valuetext") or "").endswith("seconds")
    assert await inked(page, 0.0, 0.8) > 500
    assert await inked(page, 0.9, 1.0) > 500


async def inked(page: Page, top: float, bottom: float) -> int:
    """How many pixels of the waveform are drawn in a band of it."""
    return int(
        await page.evaluate(
            """([top, bottom]) => {
                const canvas = document.querySelector("#wave canvas");
                const {width, height} = canvas;
                const from = Math.round(top * height), rows = Math.round((bottom - top) * height);
                const {data} = canvas.getContext("2d").getImageData(0, from, width, rows);
                return data.filter((value, index) => index % 4 === 3 && value > 127).length;
            }""",
            [top, bottom],
        )
    )


async def test_hover_and_focus(talk_sheet: Page) -> None:
    """Time and confidence of a word are shown to the pointer and to the keyboard, and are read aloud."""
    page = talk_sheet
    shown = await words(page)
    tip = page.get_by_role("tooltip")
    await expect(tip).to_be_hidden()
    await page.locator("#finals .word").nth(4).hover()
    await expect(tip).to_have_text(shown[4]["told"])
    assert re.fullmatch(r"0:\d\d\.\d . 0:\d\d\.\d · \d+ % sure", shown[4]["told"])
    await page.mouse.move(5, 5)
    await expect(tip).to_be_hidden()
    await page.locator("#finals .word").first.focus()
    await page.keyboard.press("ArrowRight")
    await expect(tip).to_have_text(shown[1]["told"])
    assert await page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    await page.keyboard.press("End")
    await expect(tip).to_have_text(shown[-1]["told"])


async def test_copy(talk_sheet: Page) -> None:
    """The text is copied in paragraphs, with times if that is wanted, and the page says so."""
    page = talk_sheet
    await page.click("#copy")
    await expect(page.locator("#copy")).to_have_text("Copied")
    await expect(page.locator("#spoken")).to_have_text("Copied.")
    text = await page.evaluate("navigator.clipboard.readText()")
    assert text == f"{await written(page)}\n"
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("menuitem", name="Copy with times").click()
    await expect(page.locator("#copy")).to_have_text("Copied")
    first = (await words(page))[0]["start"]
    assert await page.evaluate("navigator.clipboard.readText()") == f"[0:0{first // 1000}.{first // 100 % 10}] {text}"


async def test_saving(talk_sheet: Page, told: list[Event], tmp_path: Path) -> None:
    """Text, SRT, VTT and JSON are the same as from the command line."""
    page = talk_sheet
    transcript = Transcript("talk.wav")
    transcript.recording_ms = round(1000 * TWO_SEGMENTS_S)
    for event in told:
        transcript.add(event)
    for item, ending, format in (
        ("Text", "txt", "text"),
        ("Subtitles", "srt", "srt"),
        ("Web subtitles", "vtt", "vtt"),
        ("Words and times", "json", "json"),
    ):
        await page.get_by_role("button", name="Save").click()
        async with page.expect_download() as saving:
            await page.get_by_role("menuitem", name=re.compile(rf"^{item} \.")).click()
        saved = await saving.value
        assert saved.suggested_filename == f"talk.{ending}"
        await saved.save_as(tmp_path / ending)
        found = (tmp_path / ending).read_text()
        if format == "json":
            assert json.loads(found) == rounded(json.loads(transcript.render("json")))
        else:
            assert found == transcript.render(format)


def rounded(value: Any) -> Any:
    """The value with confidences rounded to hundredths, because browsers decode slightly differently."""
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {
            key: pytest.approx(each, abs=0.01) if key == "confidence" else rounded(each) for key, each in value.items()
        }
    return value


async def test_the_menu_by_keyboard(talk_sheet: Page) -> None:
    """Enter opens the menu, arrows move in it, Escape closes it and returns to the button."""
    page = talk_sheet
    await page.locator("#save").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem").first).to_be_focused()
    assert await page.locator("#save").get_attribute("aria-expanded") == "true"
    await page.keyboard.press("ArrowUp")
    await expect(page.get_by_role("menuitem").last).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("menu")).to_be_hidden()
    await expect(page.locator("#save")).to_be_focused()


async def test_clear_and_back(open_page: OpenPage) -> None:
    """A cleared sheet can be restored with its sound."""
    page = await open_page("/")
    before = await write(page, "words.wav", "words with sound")
    await page.click("#clear")
    assert await written(page) == ""
    await expect(page.locator("#welcome")).to_be_visible()
    await page.get_by_role("button", name="Restore").click()
    await expect(page.locator("#welcome")).to_be_hidden()
    assert await written(page) == before
    await listened(page)
    await page.click("#play")
    await page.wait_for_function("() => heard.length > 0")
