"""Speaking to the page: words, level and waveform, lost connections, and obstacles."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

from playwright.async_api import Dialog, Page, expect
from rapidfuzz.distance import Levenshtein

from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from tests.bridge.service_client import serving, session
from tests.samples import pcm
from tests.serve_process import RestartableService
from tests.web.conftest import OpenBrowser, OpenPage
from tests.web.expected_words import as_said, undisturbed
from tests.web.visitor import NOBODY, PATIENCE_MS, doing, drop, listened, said, write, written

# What the microphone hears, after a moment of silence.
SPOKEN: dict[str, Any] = {"recording": "quilter.ogg", "lead_s": 0.5}
NO_CONSENT = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream=deny"]
# Every text and class that the partial had, and everything that the live region got.
RECORDER = """() => {
    const seen = globalThis.seen = {open: [], partials: 0, spoken: 0, levels: [], drawings: new Set()};
    new MutationObserver(() => {
        seen.partials += 1;
        const words = [...document.querySelectorAll("#partial .word")];
        seen.open.push([words.filter((word) => word.matches(".open")).length, words.length]);
        const grey = words.find((word) => word.matches(".open"));
        if (grey) seen.grey = getComputedStyle(grey).color;
    }).observe(document.querySelector("#partial"), {childList: true, subtree: true, characterData: true});
    new MutationObserver((changes) => {
        seen.spoken += changes.flatMap((change) => [...change.addedNodes]).length;
    }).observe(document.querySelector("#finals"), {childList: true, subtree: true});
    setInterval(() => {
        seen.levels.push(Number(document.querySelector("#level").ariaValueNow));
        seen.drawings.add(document.querySelector("#wave canvas").toDataURL());
    }, 100);
}"""


async def understood(service: Service) -> list[str]:
    """The words that the command line gets for the recording."""
    events = await undisturbed(service.url, pcm(SPOKEN["recording"]), written=True, second_pass=True)
    return " ".join(event["text"] for event in events if event["type"] == "final").split()


def nearly(found: list[str], expected: list[str]) -> bool:
    """Whether at most a quarter of the words differ. Where one does, marks and capitals around it may, too."""
    spoken = [as_said(" ".join(words)) for words in (found, expected)]
    return Levenshtein.distance(*spoken) <= len(expected) // 4


async def speak(page: Page) -> None:
    """Press the button and wait until the page listens."""
    await page.get_by_role("button", name="Speak", exact=True).click()
    await doing(page, "listening")
    await expect(page.locator("#state")).to_have_text("Listening", timeout=PATIENCE_MS)


async def test_speaking(
    open_browser: OpenBrowser, open_page: OpenPage, shipped_site: str, shipped_service: Service
) -> None:
    """Words are grey until they are final, with level, waveform and delay; nearly those of the recording itself."""
    page = await open_page(shipped_site, browser=await open_browser(**SPOKEN))
    await page.emulate_media(reduced_motion="no-preference")
    await page.evaluate(RECORDER)
    await speak(page)
    await expect(page.get_by_role("meter")).to_be_visible()
    await expect(page.locator("#partial .word").nth(3)).to_be_visible(timeout=PATIENCE_MS)
    await expect(page.locator("#latency")).to_contain_text(re.compile(r"^\d+\.\d s behind"))
    await expect(page.locator("#finals .word").last).to_be_visible(timeout=PATIENCE_MS)
    await page.get_by_role("button", name="Stop listening").click()
    await doing(page, "nothing")
    await expect(page.locator("#state")).to_have_text("Ready")
    found, expected = (await written(page)).split(), await understood(shipped_service)
    # The browser's microphone filters the sound, and begins at another sample.
    assert nearly(found, expected), (found, expected)
    seen = await page.evaluate("() => ({...seen, drawings: seen.drawings.size})")
    assert all(still_open == words for still_open, words in seen["open"])
    assert seen["grey"] != await page.evaluate("getComputedStyle(document.querySelector('#finals .word')).color")
    assert max(seen["levels"]) > 40 > min(seen["levels"][:3])
    assert seen["drawings"] > 10
    # Only finals are read aloud.
    assert seen["partials"] > 5
    assert seen["spoken"] == await page.locator("#finals > p").count()
    await expect(page.get_by_role("meter")).to_be_hidden()


async def test_what_was_spoken_is_played(open_browser: OpenBrowser, open_page: OpenPage, shipped_site: str) -> None:
    """Space begins and ends; then the sound can be played, and speaking again continues below."""
    page = await open_page(shipped_site, browser=await open_browser(**SPOKEN))
    await page.keyboard.press("Space")
    await doing(page, "listening")
    await expect(page.locator("#partial .word").nth(2)).to_be_visible(timeout=PATIENCE_MS)
    await page.keyboard.press("Space")
    await doing(page, "nothing")
    before = await page.locator("#finals > p").count()
    await listened(page)
    await page.keyboard.press("Space")
    await page.wait_for_function("() => heard.length > 0")
    await page.click("#speak")
    await expect(page.locator("#partial .word").nth(2)).to_be_visible(timeout=PATIENCE_MS)
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    assert await page.locator("#finals > p").count() > before
    starts = await page.locator("#finals .word").evaluate_all("all => all.map((word) => Number(word.dataset.start))")
    assert starts == sorted(starts)


async def test_a_service_that_is_restarted(
    open_browser: OpenBrowser, open_page: OpenPage, served_as_shipped: RestartableService, shipped_service: Service
) -> None:
    """If the service is restarted in the middle of a sentence, the page says so, goes on, and has every word once."""
    served = served_as_shipped
    page = await open_page(served.site, browser=await open_browser(**SPOKEN), expected=NOBODY)
    await speak(page)
    await expect(page.locator("#partial .word").nth(4)).to_be_visible(timeout=PATIENCE_MS)
    await served.stop(signal.SIGTERM)  # the next test kills it
    await expect(page.locator("#state")).to_have_attribute("data-state", "resuming", timeout=PATIENCE_MS)
    await expect(page.locator("#state")).to_have_text("Reconnecting")
    await expect(page.locator("#notice")).to_contain_text("is kept until it is back")
    await served.start()
    await expect(page.locator("#state")).to_have_text("Listening", timeout=PATIENCE_MS)
    await expect(page.locator("#notice")).to_be_hidden()
    await expect(page.locator("#finals .word").last).to_be_visible(timeout=PATIENCE_MS)
    await page.click("#speak")
    await doing(page, "nothing")
    found, expected = (await written(page)).split(), await understood(shipped_service)
    assert nearly(found, expected), (found, expected)


async def test_a_service_that_stays_away(
    open_browser: OpenBrowser, open_page: OpenPage, served_as_shipped: RestartableService, shipped_service: Service
) -> None:
    """The page gives up after a minute, but keeps the sound; trying again brings the missing words."""
    served = served_as_shipped
    page = await open_page(browser=await open_browser(**SPOKEN), alone=True, expected=NOBODY)
    await page.clock.install()
    await page.goto(served.site)
    await speak(page)
    await expect(page.locator("#partial .word").nth(4)).to_be_visible(timeout=PATIENCE_MS)
    await served.stop(signal.SIGKILL)
    await expect(page.locator("#state")).to_have_text("Reconnecting", timeout=PATIENCE_MS)
    await page.wait_for_timeout(2500)  # more is spoken
    await page.clock.fast_forward(70_000)
    await expect(page.locator("#notice h2")).to_have_text("The service cannot be reached", timeout=PATIENCE_MS)
    await doing(page, "nothing")
    assert await written(page) == ""
    await served.start()
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#finals .word").nth(8)).to_be_visible(timeout=PATIENCE_MS)
    await doing(page, "nothing")
    found, expected = (await written(page)).split(), await understood(shipped_service)
    # How many words it has heard is not known: the rest of the sentence came while it had given up.
    beginnings = [expected[:number] for number in range(len(found) - 2, len(found) + 3)]
    assert any(nearly(found, beginning) for beginning in beginnings), (found, expected)
    await listened(page)
    await page.click("#play")
    await page.wait_for_function("() => heard.length > 0")


async def test_nobody_answers(open_page: OpenPage, served: RestartableService) -> None:
    """The page says so before and after the attempt; when the service is back, trying again works."""
    page = await open_page(served.site, expected=NOBODY)
    await expect(page.locator("#state")).to_have_text("Ready")
    await served.stop()
    await drop(page, said("up in the sky"))
    await expect(page.locator("#notice h2")).to_have_text("The service cannot be reached", timeout=PATIENCE_MS)
    await expect(page.locator("#state")).to_have_text("Not reachable")
    await served.start()
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#notice")).to_be_hidden()
    await expect(page.locator("#finals .word").first).to_be_visible(timeout=PATIENCE_MS)


async def test_permission_refused(open_browser: OpenBrowser, open_page: OpenPage) -> None:
    """The page says where to allow the microphone, also aloud; the button is ready again."""
    page = await open_page("/", browser=await open_browser(flags=NO_CONSENT))
    await page.click("#speak")
    await expect(page.locator("#notice h2")).to_have_text("The microphone is blocked")
    await expect(page.locator("#notice")).to_contain_text("left of the address")
    await expect(page.get_by_role("alert")).to_contain_text("The microphone is blocked")
    await doing(page, "nothing")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#notice h2")).to_have_text("The microphone is blocked")


async def test_no_microphone(open_page: OpenPage) -> None:
    """If the chosen microphone is missing, the page says so and offers a recording instead."""
    page = await open_page("/")
    await page.evaluate("localStorage.setItem('streamer.settings', JSON.stringify({device: 'gone'}))")
    await page.reload()
    await page.click("#speak")
    await expect(page.locator("#notice h2")).to_have_text("There is no microphone")
    async with page.expect_file_chooser():
        await page.get_by_role("button", name="Choose a recording").click()


async def test_an_insecure_page(open_page: OpenPage, site: str) -> None:
    """On a page without https from another machine, the message says why there is no microphone."""
    page = await open_page(site.replace("127.0.0.1", "speech.localtest"), expected=["."])
    await page.click("#speak")
    await expect(page.locator("#notice h2")).to_have_text("A microphone needs a secure page")
    await drop(page, said("up in the sky"))
    await expect(page.locator("#notice h2")).to_have_text("This address may not be used")
    await expect(page.locator("#notice")).to_contain_text("--origin")


async def test_a_full_service(open_page: OpenPage, triton: TritonServer) -> None:
    """The page counts down to the next useful attempt, and tries again when asked."""
    async with serving(triton, sessions=1) as service:
        page = await open_page(service.url.replace("ws", "http").partition("/v1")[0])
        async with session(service.url):
            await drop(page, said("up in the sky"))
            await expect(page.locator("#notice h2")).to_have_text("The service is full", timeout=PATIENCE_MS)
            countdown = page.locator("#notice .countdown")
            first = await countdown.inner_text()
            assert re.fullmatch(r"Try again in [1-5] s\.", first)
            await expect(countdown).not_to_have_text(first)
            await expect(countdown).to_have_text("You can try again now.", timeout=60_000)
        await page.get_by_role("button", name="Try again").click()
        await doing(page, "transcribing")
        await doing(page, "nothing")
        assert "sky" in await written(page)


async def test_a_key(open_page: OpenPage, triton: TritonServer, tmp_path: Path) -> None:
    """The page asks for a key, reports a wrong one, continues with the right one, and keeps it for this tab only."""
    key = make_key("visitor")
    (tmp_path / "keys").write_text(f"{key.line}\n")
    async with serving(triton, policy=PortPolicy(AccessRules(KeyFile(tmp_path / "keys")))) as service:
        page = await open_page(service.url.replace("ws", "http").partition("/v1")[0])
        await drop(page, said("up in the sky"))
        await expect(page.locator("#notice h2")).to_have_text("A key is needed", timeout=PATIENCE_MS)
        field = page.locator("#notice").get_by_label("Key", exact=True)
        await expect(field).to_be_focused()
        await field.fill("streamer_wrong")
        await field.press("Enter")
        await expect(page.locator("#notice")).to_contain_text("not valid", timeout=PATIENCE_MS)
        await page.locator("#notice").get_by_label("Key", exact=True).fill(key.secret)
        await page.get_by_role("button", name="Continue").click()
        await doing(page, "transcribing")
        await doing(page, "nothing")
        assert "sky" in await written(page)
        kept = "[sessionStorage, localStorage].map((store) => store.getItem('streamer.key'))"
        assert await page.evaluate(kept) == [key.secret, None]
        await page.reload()
        assert "sky" in await write(page, "again.wav", "up in the sky")
        await page.click("#options-open")
        await page.get_by_label("Keep the key in this browser").check()
        assert await page.evaluate(kept) == [key.secret, key.secret]
        await page.get_by_label("Keep the key in this browser").uncheck()
        assert await page.evaluate(kept) == [key.secret, None]


async def test_nothing_was_said(open_page: OpenPage, shipped_site: str) -> None:
    """Beeps are not words, and the page says that it recognised none."""
    page = await open_page(shipped_site)
    await speak(page)
    await page.wait_for_timeout(1200)
    await page.click("#speak")
    await expect(page.locator("#notice h2")).to_have_text("No words were recognised", timeout=PATIENCE_MS)
    await expect(page.locator("#copy")).to_be_disabled()


async def test_a_reload_asks_first(open_page: OpenPage) -> None:
    """While the page listens, a reload asks first, and nothing is lost if the user stays; afterwards it does not."""
    page = await open_page("/")
    asked: list[str] = []

    async def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    await speak(page)
    async with page.expect_event("dialog"):
        await page.evaluate("setTimeout(() => location.reload())")
    await expect(page.locator("#state")).to_have_text("Listening")
    assert asked == ["beforeunload"]
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    await page.reload()
    assert asked == ["beforeunload"]


async def test_stopped_before_it_began(open_page: OpenPage) -> None:
    """Pressing twice leaves no microphone open, and no session."""
    page = await open_page("/")
    sockets: list[str] = []
    page.on("websocket", lambda websocket: sockets.append(websocket.url))
    await page.evaluate(
        """() => {
            globalThis.tracks = [];
            const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = async (wish) => {
                const stream = await ask(wish);
                tracks.push(...stream.getTracks());
                return stream;
            };
        }"""
    )
    await page.dblclick("#speak")
    await doing(page, "nothing")
    await page.wait_for_function("() => tracks.length > 0 && tracks.every((track) => track.readyState === 'ended')")
    assert sockets == []
