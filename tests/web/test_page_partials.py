"""Words that may still change: those that the service takes back leave nothing behind on the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from streamer.bridge.triton.server import TritonServer
from tests.web.conftest import OpenPage, restartable
from tests.web.visitor import doing, drop, said


class Between:
    """Between a page and its service: from the first partial on, it passes nothing on but what a test gives it."""

    def __init__(self) -> None:
        self._held: list[str | bytes] | None = None
        self._but = ""
        self._websocket: WebSocketRoute | None = None
        self.holds = asyncio.Event()

    async def stand(self, page: Page) -> None:
        """Stand there from now on."""
        await page.route_web_socket("**/v1/stream", self._begin)

    def give(self, text: str, *words: tuple[str, int, int], segment: int = 0) -> None:
        """Give the page a partial."""
        timed = [{"word": word, "start_ms": start, "end_ms": end} for word, start, end in words]
        partial = {"type": "partial", "segment": segment, "text": text, "stable": 0, "start_ms": 0, "audio_ms": 900}
        assert self._websocket
        self._websocket.send(json.dumps({**partial, "words": timed}))

    def let_go(self, *, but: str = "") -> None:
        """Pass on what came meanwhile and what comes from now on; no messages of the type `but`."""
        held, self._held, self._but = self._held or [], None, but
        for message in held:
            self._answer(message)

    def _begin(self, websocket: WebSocketRoute) -> None:
        self._websocket = websocket
        server = websocket.connect_to_server()
        server.on_message(self._answer)
        server.on_close(lambda code, reason: None)  # the page ends the connection itself, after the last message

    def _answer(self, message: str | bytes) -> None:
        kind = json.loads(message)["type"]
        assert self._websocket
        if self._held is not None:
            self._held.append(message)
        elif kind != self._but:
            self._websocket.send(message)
        if kind == "partial" and not self.holds.is_set():
            self._held = []
            self.holds.set()


async def shown(page: Page) -> Sequence[Any]:
    """The number of partials, and their words."""
    rows = await page.locator("#partial > *").count()
    return rows, await page.locator("#partial .word").all_inner_texts()


@pytest.fixture
def between() -> Between:
    """What stands between the page and the service."""
    return Between()


async def test_words_that_are_taken_back(open_page: OpenPage, site: str, between: Between) -> None:
    """A shorter partial removes words, one without words removes all; the final has what was said."""
    page = await open_page()
    await between.stand(page)
    await page.goto(site)
    await drop(page, said("up in the sky"))
    await between.holds.wait()
    between.give("four five six", ("four", 0, 300), ("five", 300, 600), ("six", 600, 900))
    await expect(page.locator("#partial .word")).to_have_text(["four", "five", "six"])
    between.give("four", ("four", 0, 300))
    await expect(page.locator("#partial .word")).to_have_text(["four"])
    assert await page.locator("#partial .words").inner_text() == "four"
    between.give("")
    await expect(page.locator("#partial .word")).to_have_count(0)
    assert await shown(page) == (0, [])
    between.let_go()
    await doing(page, "nothing")
    await expect(page.locator("#finals .word")).to_have_text(["Up", "in", "the", "sky"])
    assert await shown(page) == (0, [])


async def test_words_without_a_final(open_page: OpenPage, site: str, between: Between) -> None:
    """If the session ends without a final for shown words, they are not on the page, and not in the history."""
    page = await open_page()
    await between.stand(page)
    await page.goto(site)
    await drop(page, said("up in the sky"))
    await between.holds.wait()
    between.give("never said", ("never", 0, 300), ("said", 300, 600))
    await expect(page.locator("#partial .word")).to_have_text(["never", "said"])
    between.let_go(but="final")
    await doing(page, "nothing")
    assert await shown(page) == (0, [])
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    await page.click("#history-open")
    await page.locator("button.kept").click()
    await expect(page.locator("#history")).to_be_hidden()
    await expect(page.locator("#finals .word")).to_have_count(0)


async def test_a_service_that_is_replaced(open_page: OpenPage, triton: TritonServer, between: Between) -> None:
    """When a session goes on at another service, the words that were not final are removed until they come again."""
    async with restartable(triton) as served:
        page = await open_page(expected=["WebSocket connection to", "Failed to load resource"])
        await page.goto(served.site)
        await page.get_by_label("As spoken").check()
        await drop(page, said("a long sentence that takes its time and more of it and then some"))
        await expect(page.locator("#partial .word").nth(2)).to_be_visible()
        await served.stop()
        await expect(page.locator("#notice")).to_contain_text("The connection is lost")
        await served.start()
        await doing(page, "nothing")
        assert await shown(page) == (0, [])
        text = "A long sentence that takes its time and more of it and then some"
        await expect(page.locator("#finals .word")).to_have_text(text.split())
