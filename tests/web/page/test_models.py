"""The choice of model and language, where the service has several."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

from playwright.async_api import Route, expect

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.server import TritonServer
from tests.bridge.service_client import serving
from tests.engine.reader.scripted_whisper import write_whisper
from tests.serve_process import serving as serving_apart
from tests.web.conftest import OpenPage
from tests.web.visitor import saved, transcribed, write


async def test_one_model(open_page: OpenPage) -> None:
    """A service with one model, which has one language, offers no choice."""
    page = await open_page("/")
    await page.click("#options-open")
    await expect(page.get_by_label("A sentence ends after")).to_be_visible()
    await expect(page.get_by_label("Model")).to_be_hidden()
    await expect(page.get_by_label("Language")).to_be_hidden()
    await expect(page.locator("#hears")).to_have_text(f"The model {MODEL} hears.")


async def test_several_models(open_page: OpenPage, triton: TritonServer) -> None:
    """The chosen model and language are asked for; those that the service does not have any more are not."""
    async with serving(triton, models={"default": MODEL, "calls": MODEL}) as service:
        page = await open_page(service.url.replace("ws", "http").partition("/v1")[0])
        sent: list[str] = []
        page.on("websocket", lambda websocket: websocket.on("framesent", lambda frame: sent.append(str(frame))))
        await page.click("#options-open")
        await expect(page.get_by_label("Language")).to_be_hidden()
        await page.get_by_label("Model").select_option("calls")
        await page.keyboard.press("Escape")
        await page.reload()
        await write(page, "one.wav", "with another model")
        assert json.loads(sent[0])["model"] == "calls"

        async def other(route: Route) -> None:
            state = {"ready": True, "models": {"default": {"model": "nemotron", "languages": ["de", "en", "fr"]}}}
            await route.fulfill(json=state)

        # No model that recognises exactly has several languages.
        await page.route("**/readyz", other)
        await page.click("#options-open")
        await expect(page.get_by_label("Model")).to_be_hidden()
        await expect(page.locator("#hears")).to_have_text("The model nemotron hears.")
        await page.get_by_label("Language").select_option(label="German")
        await page.keyboard.press("Escape")
        options = await page.evaluate("import('/page/settings.js').then(({Settings}) => new Settings().options)")
        assert (options["language"], "model" in options) == ("de", False)


async def test_a_reader_alone(open_page: OpenPage, tmp_path: Path) -> None:
    """With a Whisper model, the page offers its languages; the chosen one, or none, is asked for, and read."""
    folder = tmp_path / "whisper"
    write_whisper(folder, ("ĠGuten", "ĠTag", "."))
    with ExitStack() as stack:
        service = serving_apart("--model", str(folder), "--slots", "4", "--instances", "1")
        served = await asyncio.to_thread(stack.enter_context, service)
        page = await open_page(served.url.replace("ws", "http").partition("/v1")[0])
        sent: list[str] = []
        page.on("websocket", lambda websocket: websocket.on("framesent", lambda frame: sent.append(str(frame))))
        await page.click("#options-open")
        await expect(page.locator("#hears")).to_have_text("The model whisper hears.")
        languages = ["English", "Chinese", "German", "Spanish", "Japanese"]
        not_chosen = "found out by the model, or English if it knows no other"
        await expect(page.get_by_label("Language").locator("option")).to_have_text([not_chosen, *languages])
        for chosen in ("German", not_chosen):
            await page.get_by_label("Language").select_option(label=chosen)
            await page.keyboard.press("Escape")
            assert await transcribed(page, "quilter.ogg", 3.0) == "Guten Tag."
            # One that was found out is named, in itself, also after a reload.
            heard = [] if chosen == "German" else ["Deutsch"]
            await expect(page.locator("#finals .language")).to_have_text(heard)
            await page.reload()
            await expect(page.locator("#finals .language")).to_have_text(heard)
            [segment] = json.loads(await saved(page, "Words and times .json"))["segments"]
            assert segment.get("language") == ("de" if heard else None)
            await page.click("#options-open")
        starts = [start for each in sent if each.startswith("{") and (start := json.loads(each))["type"] == "start"]
        assert [start.get("language") for start in starts] == ["de", None]
        assert await asyncio.to_thread(served.end) == 0
