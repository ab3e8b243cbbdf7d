"""Captions in a real browser: few lines, the whole text, the looks by the address, and the link of the speaker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest_asyncio
from playwright.async_api import Page, expect
from websockets.asyncio.client import ClientConnection, connect

from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.captions import PATH
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing.faulty_proxy import FaultyProxy
from tests.bridge.service_client import SPOKEN, START, WORDS, receive, rest, serving
from tests.web.conftest import OpenPage
from tests.web.visitor import FAINT, doing, drop, said

LISTENERS = 8  # that the service allows
QUESTION = "where does the river begin"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sharing(triton: TritonServer) -> AsyncIterator[Service]:
    """A service whose sessions can be shared."""
    async with serving(triton, policy=PortPolicy(listeners=LISTENERS)) as service:
        yield service


class Speaker:
    """A client that has a session, and shares it."""

    def __init__(self, service: Service, websocket: ClientConnection, page: Page) -> None:
        self._site = f"http://{urlsplit(service.url).netloc}"
        self._websocket = websocket
        self._page = page
        self._token = ""

    async def share(self, **looks: object) -> str:
        """Share the session. Return the address of its captions."""
        if not self._token:
            await self._websocket.send(START)
            self._token = (await receive(self._websocket))["token"]
        answer = await self._page.request.post(f"{self._site}{PATH}", data=json.dumps({"token": self._token}))
        page = (await answer.json())["page"]
        return f"{self._site}{page}&{urlencode(looks)}"

    async def speak(self, *, end: bool = True) -> None:
        """Say two sentences."""
        await self._websocket.send(SPOKEN)
        if end:
            await self.end()
            return
        await self._websocket.send('{"type":"flush"}')
        while (await receive(self._websocket))["type"] != "flushed":
            pass

    async def end(self) -> None:
        """End the session."""
        await self._websocket.send('{"type":"stop"}')
        await rest(self._websocket)


@pytest_asyncio.fixture(loop_scope="session")
async def speaker(sharing: Service, open_page: OpenPage) -> AsyncIterator[Speaker]:
    """Somebody who speaks."""
    page = await open_page()
    async with connect(sharing.url, compression=None) as websocket:
        yield Speaker(sharing, websocket, page)


async def test_lines_stay_where_they_are(shared_bench: Page) -> None:
    """New words are added at the end, and no word that is shown changes its line; older lines leave at the top."""
    told = await shared_bench.evaluate(
        """async (texts) => {
            const {CaptionLines} = await load("page/captions/lines");
            const lines = new CaptionLines(2, 20);
            const shown = [];
            for (const [type, event] of texts) {
                lines[type](event);
                shown.push(lines.shown);
            }
            return shown;
        }""",
        [
            ["partial", {"text": "we walked along"}],
            ["partial", {"text": "we walked along the river"}],
            ["final", {"text": "We walked along the river."}],
            ["partial", {"text": "and then"}],
            ["final", {"text": "And then we came to a bridge."}],
            ["final", {"text": "Yes.", "channel": 1}],
            ["partial", {"text": "no", "channel": 0}],
            ["partial", {"text": "", "channel": 0}],
        ],
    )
    assert told == [
        ["we walked along"],
        ["we walked along the", "river"],
        ["We walked along the", "river."],
        ["We walked along the", "river. and then"],
        ["river. And then we", "came to a bridge."],
        ["came to a bridge.", "[2] Yes."],
        ["[2] Yes.", "[1] no"],
        ["came to a bridge.", "[2] Yes."],
    ]


async def test_speakers_have_lines_of_their_own(shared_bench: Page) -> None:
    """Where somebody else speaks, a line begins, with the name or the number; words that may change have nobody yet."""
    two = {"text": "So it is. Is it?", "speaker": 0}
    two["parts"] = [{"text": "So it is.", "speaker": 0}, {"text": "Is it?", "speaker": 1}]
    told = await shared_bench.evaluate(
        """async (events) => {
            const {CaptionLines} = await load("page/captions/lines");
            const lines = new CaptionLines(3, 20);
            return events.map(([type, event]) => {
                lines[type](event);
                return lines.shown;
            });
        }""",
        [
            ["final", two],
            ["partial", {"text": "I think"}],
            ["final", {"text": "I think so.", "speaker": 0, "speaker_names": ["Ada"]}],
        ],
    )
    assert told == [
        ["[1] So it is.", "[2] Is it?"],
        ["[1] So it is.", "[2] Is it? I think"],
        ["[1] So it is.", "[2] Is it?", "[Ada] I think so."],
    ]


async def test_a_few_lines_over_a_video(speaker: Speaker, open_page: OpenPage) -> None:
    """The last words are shown in two lines at the bottom, on nothing; screen readers get whole sentences."""
    page = await open_page(await speaker.share(size=30, width=30))
    await speaker.speak(end=False)
    await expect(page.locator("#lines p")).to_have_count(2)
    shown = await page.locator("#lines p").all_inner_texts()
    assert WORDS[1].endswith(" ".join(shown))
    assert max(map(len, shown)) <= 30
    assert await page.get_by_role("log").locator("p").all_inner_texts() == list(WORDS)
    looks = "element => [getComputedStyle(element).fontSize, getComputedStyle(document.body).backgroundColor]"
    assert await page.locator("#lines").evaluate(looks) == ["30px", "rgba(0, 0, 0, 0)"]
    box = await page.locator("#lines p").last.bounding_box()
    assert box is not None
    assert box["y"] > 0.8 * await page.evaluate("() => innerHeight")


async def test_the_address_says_how_it_looks(speaker: Speaker, open_page: OpenPage) -> None:
    """Colours, font, place and number of lines come from the address. What a browser does not understand is ignored."""
    looks = {"color": "yellow", "background": "rgb(0 0 255)", "font": "Georgia", "position": "top", "align": "left"}
    page = await open_page(await speaker.share(**looks, lines=1))
    await speaker.speak(end=False)
    await expect(page.locator("#lines p")).to_have_count(1)
    line = page.locator("#lines p")
    style = "element => { const {color, backgroundColor, fontFamily} = getComputedStyle(element);"
    style += " return [color, backgroundColor, fontFamily]; }"
    assert await line.evaluate(style) == ["rgb(255, 255, 0)", "rgb(0, 0, 255)", "Georgia"]
    box = await line.bounding_box()
    assert box is not None
    assert (box["x"] < 60, box["y"] < 60) == (True, True)
    wrong = {"color": "red;}", "background": "url(//x)", "size": "huge", "lines": 999, "position": "nowhere"}
    page = await open_page(await speaker.share(**wrong))
    await expect(page.locator("#lines p")).to_have_count(2)
    assert (await page.locator("#lines p").first.evaluate(style))[:2] == ["rgb(255, 255, 255)", "rgba(0, 0, 0, 0.75)"]


async def test_an_audience_reads_the_whole_text(speaker: Speaker, open_page: OpenPage) -> None:
    """With all lines, the text so far is there and grows, with enough contrast; at the end, the page says so."""
    page = await open_page(await speaker.share(lines="all"))
    await expect(page.get_by_role("status")).to_have_text("Waiting for words")
    await speaker.speak()
    await expect(page.get_by_role("log").locator("p")).to_have_text(list(WORDS))
    await expect(page.get_by_role("status")).to_have_text("The session has ended.")
    found = await page.evaluate(FAINT)
    assert (found["looked"] >= 3, found["faint"]) == (True, [])


async def test_a_link_that_is_over(sharing: Service, open_page: OpenPage) -> None:
    """A link of a session that has ended says so."""
    site = f"http://{urlsplit(sharing.url).netloc}"
    page = await open_page(f"{site}/captions?id=gone&lines=all", expected=["404"])
    await expect(page.get_by_role("status")).to_have_text("This link has ended.")


async def test_a_service_that_refuses_for_a_while(sharing: Service, speaker: Speaker, open_page: OpenPage) -> None:
    """A page that lost its connection, and finds no place, asks again, keeps its words, and shows each of them once."""
    address = urlsplit(sharing.url).netloc
    link = await speaker.share(lines="all")
    way = FaultyProxy(lambda: address)
    await way.open()
    page = await open_page(link.replace(address, way.address), expected=["503", "net::ERR"], alone=True)
    words = page.get_by_role("log").locator("p")
    await speaker.speak(end=False)
    await expect(words).to_have_text(list(WORDS))
    way.refusing = True
    await way.cut()
    await expect(page.get_by_role("status")).to_have_text("Connecting again")
    async with listeners(address, link, LISTENERS), page.expect_response(lambda answer: answer.status == 503):
        way.refusing = False
    await speaker.speak(end=False)
    await expect(words).to_have_text([*WORDS, *WORDS], timeout=20_000)
    await speaker.end()
    await expect(page.get_by_role("status")).to_have_text("The session has ended.")
    await way.close()


@asynccontextmanager
async def listeners(address: str, link: str, number: int) -> AsyncIterator[None]:
    """Listen to a session as often as this."""
    host, _, port = address.rpartition(":")
    name = parse_qs(urlsplit(link).query)["id"][0]
    writers: list[asyncio.StreamWriter] = []
    try:
        while len(writers) < number:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET {PATH}/{name} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            if b" 200 " in await reader.readline():  # the place of one that has left may be taken for a moment
                writers.append(writer)
            else:
                writer.close()
        yield
    finally:
        for writer in writers:
            writer.close()


async def test_a_speaker_makes_the_link(sharing: Service, open_page: OpenPage) -> None:
    """The page makes a link while it works, says how many read along, and ends it. Another window needs no link."""
    site = f"http://{urlsplit(sharing.url).netloc}"
    page = await open_page(site, expected=["404"])
    beside = await page.context.new_page()
    await beside.goto(f"{site}/captions?lines=all")
    await page.get_by_label("As spoken").check()
    await drop(page, said(*[QUESTION] * 4))
    await page.get_by_role("button", name="Captions").click()
    await page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("Link for the audience")
    await expect(link).to_be_visible()
    address = await link.input_value()
    assert address.startswith(f"{site}/captions?id=")
    assert address.endswith("&lines=all")
    await page.get_by_label("Two lines").check()
    assert (await link.input_value()).endswith("&lines=2")
    reader = await open_page(address)
    await expect(page.locator("#share-state")).to_have_text("1 person reads along.")
    await page.get_by_role("button", name="Done").click()
    await doing(page, "nothing")
    for window in (reader, beside):
        await expect(window.get_by_role("log").locator("p")).to_have_text([QUESTION.capitalize()] * 4)
        await expect(window.get_by_role("status")).to_have_text("The session has ended.")
    await beside.close()


async def test_the_link_on_a_page_without_https(sharing: Service, open_page: OpenPage) -> None:
    """There, a browser has only the old way to copy; the page says whether the link was copied."""
    page = await open_page(f"http://{urlsplit(sharing.url).netloc}")
    await page.evaluate(
        """() => {
            Object.defineProperty(navigator, "clipboard", {value: undefined});
            globalThis.copied = [];
            addEventListener("copy", () => copied.push(String(document.activeElement.value)));
        }"""
    )
    await page.get_by_label("As spoken").check()
    await drop(page, said(*[QUESTION] * 4))
    await page.get_by_role("button", name="Captions").click()
    await page.get_by_role("button", name="Make a link").click()
    await expect(page.get_by_label("Link for the audience")).to_be_visible()
    link = await page.get_by_label("Link for the audience").input_value()
    await page.get_by_role("button", name="Copy the link").click()
    await expect(page.locator("#share-state")).to_have_text("The link is copied.")
    assert await page.evaluate("copied") == [link]
    await page.evaluate("document.execCommand = () => false")
    await page.get_by_role("button", name="Copy the link").click()
    await expect(page.locator("#share-state")).to_have_text("The browser does not allow copying.")


async def test_another_window_shows_one_session_after_another(site: str, open_page: OpenPage) -> None:
    """The sentences of a later session are shown, although their numbers are those of an earlier one."""
    beside = await open_page(f"{site}/captions?lines=all")
    tell = """async (texts) => {
        const {CHANNEL} = await import("/page/captions/channel.js");
        const channel = new BroadcastChannel(CHANNEL);
        for (const text of texts) {
            channel.postMessage({type: "final", event: {n: 7, text}});
            channel.postMessage({type: "end"});
        }
    }"""
    page = await open_page(site)
    await page.evaluate(tell, ["The first one.", "The second one."])
    await expect(beside.get_by_role("log").locator("p")).to_have_text(["The first one.", "The second one."])


async def test_sharing_that_is_off(site: str, open_page: OpenPage) -> None:
    """Where the operator does not allow it, the page says so."""
    page = await open_page(site, expected=["403"])
    await page.get_by_label("As spoken").check()
    await drop(page, said(QUESTION))
    await page.get_by_role("button", name="Captions").click()
    await page.get_by_role("button", name="Make a link").click()
    await expect(page.locator("#share-state")).to_contain_text("--share")
    await expect(page.get_by_label("Link for the audience")).to_be_hidden()
