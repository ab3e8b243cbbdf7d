"""The choice of model and language, where the service has several."""

from __future__ import annotations

import json

from playwright.async_api import Route, expect

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.server import TritonServer
from tests.bridge.service_client import serving
from tests.web.conftest import OpenPage
from tests.web.visitor import write


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
