"""The page itself: options, keyboard, screen reader, light and dark, a phone, and a strict policy."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Locator, Page, expect

from streamer.bridge.service import Service
from streamer.transcript import Transcript
from tests.samples import reference
from tests.web.conftest import OpenPage
from tests.web.visitor import PATIENCE_MS, doing, drop, said, transcribed, wave_file, written

CONTROLS = ("history-open", "options-open", "keys-open", "programs-open", "file", "speak")
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
# The division of lines depends on which words these are.
COMMON = ("the", "and", "of", "to", "because", "gravel", "wine", "adventure", "there", "whirled")
# Words of scripts without spaces, with marks and figures, and what is around them.
SPACELESS = (*"今日は東京にいる", "他。", "“你", "好”，", "「は", "い」", "2024", "年", "— (", "．")
TEXTS = ["ab cd", "今日は", "今日は、 OK 東京2024年", "今日は東京 OK", "我 A 是的"]
# Every visible text with too little contrast: WCAG AA requires 4.5, or 3 for large text.
FAINT = """() => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const over = (colours) => {
        pen.clearRect(0, 0, 1, 1);
        for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => {
        const linear = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = rgb.map((each) => linear(each / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = {looked: 0, faint: []};
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].filter((node) => node.nodeType === 3);
        const text = own.map((node) => node.data).join("").trim();
        const style = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        const shown = element.checkVisibility({visibilityProperty: true}) && box.width > 2 && style.clipPath === "none";
        if (!text || !shown || element.closest(":disabled") || element.closest(".unseen")) continue;
        const behind = [];
        for (let each = element; each; each = each.parentElement) {
            behind.unshift(getComputedStyle(each).backgroundColor);
        }
        const [a, b] = [light(over(behind)), light(over([...behind, style.color]))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const large = parseFloat(style.fontSize) >= 24;
        found.looked += 1;
        if (ratio < (large ? 3 : 4.5)) found.faint.push([text.slice(0, 30), ratio, style.color]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_contrast(open_page: OpenPage, scheme: Any) -> None:
    """Every text has enough contrast, including grey words, options and messages; dark is dark."""
    page = await open_page("/", color_scheme=scheme)
    assert (await page.evaluate(FAINT))["faint"] == []
    await page.get_by_label("As spoken").check()
    await drop(page, wave_file("airplane.mp3"))
    await expect(page.locator("#partial .word.open").first).to_be_visible(timeout=60_000)
    assert (await page.evaluate(FAINT))["faint"] == []
    await doing(page, "nothing")
    await page.locator("#finals .word").first.hover()
    await drop(page, b"nothing", "letter.txt")
    await expect(page.locator("#notice h2")).to_be_visible()
    found = await page.evaluate(FAINT)
    assert (found["looked"] > 10, found["faint"]) == (True, [])
    await page.locator("#save").click()
    await expect(page.get_by_role("menu")).to_be_visible()
    assert (await page.evaluate(FAINT))["faint"] == []
    await page.keyboard.press("Escape")
    await page.click("#options-open")
    await page.wait_for_timeout(400)
    found = await page.evaluate(FAINT)
    assert (found["looked"] > 15, found["faint"]) == (True, [])
    brightness = (
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((sum, each) => sum + Number(each), 0)"
    )
    assert (await page.evaluate(brightness) < 120) == (scheme == "dark")


async def test_a_phone(open_page: OpenPage) -> None:
    """On a phone nothing needs sideways scrolling, nothing is cut off, and controls are large enough to touch."""
    page = await open_page("/", **PHONE)
    for width in (360, 320):
        await page.set_viewport_size({"width": width, "height": 740})
        await fits(page, width)
    await page.set_viewport_size({"width": 360, "height": 740})
    await transcribed(page)
    await fits(page, 360)
    await page.locator("#finals .word").nth(5).tap()
    await expect(page.locator(".word.heard")).to_be_visible()
    for name in ("options", "history", "keys", "programs"):
        await page.evaluate(f"document.getElementById('{name}').showModal()")
        await fits(page, 360)
        await page.keyboard.press("Escape")
    await drop(page, b"nothing", "letter.txt")
    await expect(page.locator("#notice h2")).to_be_visible()
    await fits(page, 360)
    small = await page.locator("button:visible, label.button").evaluate_all(
        "all => all.map((one) => [one.id, one.getBoundingClientRect()])"
        ".filter(([, box]) => box.height < 40 || box.width < 40).map(([id]) => id)"
    )
    assert small == []


@pytest.mark.parametrize("height", [256, 640])
async def test_a_small_window(open_page: OpenPage, exact_service: Service, height: int) -> None:
    """At 320 pixels (400 % zoom), header and transcript stay visible, even at the end of a long transcript."""
    page = await open_page(f"http://{urlsplit(exact_service.url).netloc}/", viewport={"width": 320, "height": height})
    words = reference("talk.flac").split()
    await drop(page, said(*(" ".join(words[start : start + 20]) for start in range(0, len(words), 20))))
    await expect(page.locator("#finals .word")).to_have_count(len(words), timeout=60_000)
    await doing(page, "nothing")
    await page.wait_for_function("() => scrollY > 100")
    header, dock, seen = await page.evaluate(
        """() => {
            const [header, dock] = ["body > header", "#dock"].map((one) => document.querySelector(one));
            const [top, bottom] = [header.getBoundingClientRect().bottom, dock.getBoundingClientRect().top];
            const words = [...document.querySelectorAll("#finals .word")].map((word) => word.getBoundingClientRect());
            return [top, bottom, words.filter((box) => box.top >= top && box.bottom <= bottom).length];
        }"""
    )
    assert 0 < header < dock - height / 3
    assert seen > 5
    await expect(page.locator("#state")).to_be_in_viewport()
    for name in ("#options-open", "#history-open", "#speak", "#copy", "#save", "#clear"):
        await expect(page.locator(name)).to_be_in_viewport(ratio=1)
    await fits(page, 320)


async def fits(page: Page, width: int) -> None:
    """Check that nothing is wider than the window."""
    beyond = await page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((one) => one.checkVisibility() && !one.closest(".unseen, pre, dialog header"))
            .map((one) => [one, one.getBoundingClientRect()])
            .filter(([, box]) => box.right > innerWidth + 1 || box.left < -1)
            .map(([one]) => one.id || one.className || one.tagName)"""
    )
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    assert beyond == []


async def test_options_are_remembered(open_page: OpenPage) -> None:
    """Options are still set after a reload, are sent to the service, and can be reset."""
    page = await open_page("/")
    sent: list[str] = []
    page.on("websocket", lambda websocket: websocket.on("framesent", lambda frame: sent.append(str(frame))))
    await page.click("#options-open")
    await expect(page.get_by_role("dialog", name="Options")).to_be_visible()
    await page.get_by_label("Names and words to listen for").fill("mister quilter\n\n gospel ")
    await page.get_by_label("A sentence ends after").select_option("2000")
    await page.get_by_label("Words appear").select_option("160")
    await page.get_by_label("Marks, capitals and figures").uncheck()
    await page.get_by_label("Dictated marks").check()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.reload()
    text = await transcribed(page)
    assert json.loads(sent[0]) == {
        "type": "start",
        "partial_words": True,
        "hotwords": ["mister quilter", "gospel"],
        "endpoint": {"after_text_ms": 2000},
        "step_ms": 160,
    }
    assert text[0].islower()
    await page.click("#options-open")
    await expect(page.get_by_label("Names and words to listen for")).to_have_value("mister quilter\n\n gospel ")
    await expect(page.get_by_label("Marks, capitals and figures")).not_to_be_checked()
    await page.get_by_label("Marks, capitals and figures").check()
    await page.get_by_role("button", name="Done").click()
    await page.reload()
    await transcribed(page, "airplane.mp3")
    starts = [json.loads(frame) for frame in sent if '"start"' in frame]
    assert starts[-1]["written"] is starts[-1]["dictation"] is True
    await page.click("#options-open")
    await page.get_by_role("button", name="Reset to defaults").click()
    await expect(page.get_by_label("A sentence ends after")).to_have_value("1000")
    await page.get_by_role("button", name="Done").click()
    await page.reload()
    await transcribed(page, "airplane.mp3")
    starts = [json.loads(frame) for frame in sent if '"start"' in frame]
    assert starts[-1] == {"type": "start", "partial_words": True, "written": True}


async def test_turns_are_marked(open_page: OpenPage, exact_service: Service) -> None:
    """With the option for it, a mark shows where somebody had finished, also when the history shows it again."""
    page = await open_page(f"http://{urlsplit(exact_service.url).netloc}/")
    await page.click("#options-open")
    await page.get_by_label("A sentence ends after").select_option("turn")
    await page.get_by_role("button", name="Done").click()
    sent: list[str] = []
    page.on("websocket", lambda websocket: websocket.on("framesent", lambda frame: sent.append(str(frame))))
    await drop(page, said("the first", "the second", pause_ms=2600))
    await expect(page.locator("#finals .segment")).to_have_count(2, timeout=PATIENCE_MS)
    await doing(page, "nothing")
    assert json.loads(sent[0])["endpoint"] == {"turn": True}
    marked = page.locator("#finals .segment.turn .words")
    await expect(marked).to_have_text(["The first", "The second"])
    assert await mark(page, marked) == '"\u00a0\u00b6" / ""'
    assert await written(page) == "The first The second"
    await page.reload()
    await expect(marked).to_have_text(["The first", "The second"])


async def mark(page: Page, marked: Locator) -> str:
    """What stands behind the words, which nobody copies or reads out."""
    return str(await marked.first.evaluate("words => getComputedStyle(words, '::after').content"))


async def test_a_wish_that_is_refused(open_page: OpenPage) -> None:
    """If the service refuses an option, the page says why and offers the options."""
    page = await open_page("/")
    await page.click("#options-open")
    await page.get_by_label("Names and words to listen for").fill("one two three four five six seven")
    await page.keyboard.press("Escape")
    await drop(page, wave_file("airplane.mp3"))
    await expect(page.locator("#notice h2")).to_have_text("The service refuses this")
    await expect(page.locator("#notice p")).to_contain_text("words")
    await page.get_by_role("button", name="Open the options").click()
    await expect(page.get_by_label("Names and words to listen for")).to_be_visible()


async def test_every_control_by_keyboard(open_page: OpenPage) -> None:
    """Tab reaches every control in the order of the page, with a visible outline."""
    page = await open_page("/")
    reached = await tabbed(page)
    assert [name for name in reached if name in CONTROLS] == list(CONTROLS)
    assert "pace" in reached
    await transcribed(page)
    await page.evaluate("document.activeElement.blur()")
    reached = await tabbed(page)
    expected = [
        "history-open",
        "options-open",
        "name",
        "word",
        "play",
        "wave",
        "file",
        "pace",
        "speak",
        "copy",
        "save",
        "clear",
    ]
    assert [name for name in reached if name in expected] == expected


async def tabbed(page: Page) -> list[str]:
    """The controls that Tab reaches. Each must have a visible outline."""
    reached: list[str] = []
    for _ in range(30):
        await page.keyboard.press("Tab")
        name, outlined, labelled = await page.evaluate(
            """() => {
                const here = document.activeElement;
                if (here === document.body) return ["", true, true];
                const marks = [here, here.closest("label"), here.nextElementSibling].filter(Boolean);
                const outlined = marks.some((one) => getComputedStyle(one).outlineStyle === "solid"
                    && parseFloat(getComputedStyle(one).outlineWidth) >= 2);
                const name = here.name === "pace" ? "pace" : here.id || here.className.split(" ")[0];
                return [name, outlined, Boolean(here.ariaLabel || here.labels?.length || here.innerText.trim())];
            }"""
        )
        if not name or name in reached:
            break
        assert outlined, f"{name} has no outline"
        assert labelled, f"{name} has no name"
        reached.append(name)
    return reached


async def test_a_screen_reader(open_page: OpenPage) -> None:
    """Finals are a polite live region without the partial; landmarks, states and pictures have names."""
    page = await open_page("/")
    await transcribed(page)
    log = page.get_by_role("log", name="What was said")
    assert await log.get_attribute("aria-live") == "polite"
    assert await log.locator("#partial").count() == 0
    assert await page.locator("#finals .at[aria-hidden=true]").count() == await page.locator("#finals .at").count() > 0
    assert await page.get_by_role("status").first.inner_text() == "Ready"
    for role in ("banner", "main", "contentinfo"):
        assert await page.get_by_role(role).count() == 1, role
    nameless = await page.locator("button, input, select, textarea, [role]").evaluate_all(
        "all => all.filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length"
        " || one.getAttribute('aria-labelledby') || one.matches('[role=tooltip], [role=status], [role=alert]')))"
        ".map((one) => one.outerHTML)"
    )
    assert nameless == []
    assert await page.locator("svg:not([aria-hidden=true])").count() == 0


async def test_less_movement(open_page: OpenPage) -> None:
    """With reduced motion there are no animations, and the waveform is drawn at most four times a second."""
    page = await open_page("/", reduced_motion="reduce")
    await page.evaluate(
        """() => {
            globalThis.drawn = 0;
            const clear = CanvasRenderingContext2D.prototype.clearRect;
            CanvasRenderingContext2D.prototype.clearRect = function (...box) {
                globalThis.drawn += 1;
                clear.apply(this, box);
            };
        }"""
    )
    await page.click("#speak")
    await expect(page.locator("#state")).to_have_text("Listening", timeout=60_000)
    drawn, seconds = await page.evaluate(
        """async () => {
            const [before, began] = [drawn, performance.now()];
            await new Promise((resolve) => setTimeout(resolve, 1500));
            return [drawn - before, (performance.now() - began) / 1000];
        }"""
    )
    assert 1 <= drawn <= 4 * seconds + 1
    assert await page.evaluate("document.getAnimations().length") == 0
    await page.keyboard.press("Escape")
    await doing(page, "nothing")


async def test_the_policy_holds(open_page: OpenPage) -> None:
    """Nothing inline runs, and the page does nothing that its own policy forbids."""
    page = await open_page("/", expected=["Content Security Policy"])
    await page.evaluate(
        """() => {
            globalThis.broken = [];
            document.addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
        }"""
    )
    await page.click("#speak")
    await expect(page.locator("#state")).to_have_text("Listening", timeout=60_000)
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    await transcribed(page, "airplane.mp3")
    await page.click("#play")
    await page.click("#options-open")
    await page.get_by_role("button", name="Done").click()
    assert await page.evaluate("broken") == []
    await page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "globalThis.inline = true";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<p style='color: red'>red</p>");
        }"""
    )
    assert await page.evaluate("globalThis.inline === undefined")
    await page.wait_for_function("() => broken.length === 2")
    assert sorted(await page.evaluate("broken")) == ["script-src-elem", "style-src-attr"]


async def test_nobody_else_is_asked(open_page: OpenPage, site: str) -> None:
    """Every request goes to the service itself, so the page works without another network."""
    page = await open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda websocket: asked.append(websocket.url.replace("ws:", "http:")))
    await page.goto("/")
    await transcribed(page, "airplane.mp3")
    await page.click("#play")
    await page.click("#speak")
    await expect(page.locator("#state")).to_have_text("Listening", timeout=60_000)
    await page.keyboard.press("Escape")
    await doing(page, "nothing")
    assert len(asked) > 15
    assert [url for url in asked if not url.startswith((f"{site}/", f"blob:{site}/"))] == []
    assert any(url == f"{site}/favicon.svg" for url in asked)


async def test_for_programs(open_page: OpenPage, site: str) -> None:
    """The page shows the address of the service."""
    page = await open_page("/")
    await page.click("#programs-open")
    await expect(page.locator("#address")).to_have_text(f"{site.replace('http', 'ws')}/v1/stream")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_formats_are_those_of_the_command_line(open_page: OpenPage) -> None:
    """Text, SRT and VTT of any transcript are identical to those of the command line, JSON has the same content."""
    page = await open_page("/")
    dice = random.Random(7)
    sheets = [[segment(dice, number) for number in range(dice.randint(0, 5))] for _ in range(150)]
    for each in sheets:
        at = 0
        for final in each:
            at = shift(final, at + dice.choice([0, 40, 900, 4000]))
            if dice.random() < 0.2:
                final["words"] = None
    found = await page.evaluate(
        """async (sheets) => {
            const {FORMATS} = await import("/page/transcript/formats.js");
            return sheets.map((segments) => Object.fromEntries(Object.entries(FORMATS).map(
                ([name, {write}]) => [name, write({file: "a.wav", durationMs: 9e6, segments})])));
        }""",
        sheets,
    )
    for each, made in zip(sheets, found, strict=True):
        transcript = Transcript("a.wav")
        for event in (*each, {"type": "done", "audio_ms": 9_000_000}):
            transcript.add(event)
        for format in ("text", "srt", "vtt"):
            assert made[format] == transcript.render(format), each
        assert json.loads(made["json"]) == json.loads(transcript.render("json"))


async def test_scripts_without_spaces(open_page: OpenPage) -> None:
    """Partials and finals show the text as it came, and each character is a word that may be stable or not."""
    page = await open_page("/")
    shown = await page.evaluate(
        """async (texts) => {
            const {Words} = await import("/page/transcript/words.js");
            const [finals, partial] = [document.createElement("div"), document.createElement("div")];
            document.body.append(finals, partial);
            const words = new Words(finals, partial, document.createElement("div"));
            const told = texts.map((text) => {
                words.showPartial({text, stable: 3, start_ms: 0});
                const place = partial.querySelector(".words");
                const stable = [...place.querySelectorAll(".word:not(.open)")];
                return [place.textContent, stable.map((word) => word.textContent)];
            });
            words.showFinal({start_ms: 0, end_ms: 900, text: texts.at(-1), words: null});
            return [...told, finals.querySelector(".words").textContent];
        }""",
        TEXTS,
    )
    stable = [["ab"], [*"今日は"], [*"今日"], [*"今日は"], ["我", "A"]]
    assert shown == [*map(list, zip(TEXTS, stable, strict=True)), TEXTS[-1]]


def segment(dice: random.Random, number: int) -> dict[str, Any]:
    """A final with some words, from 0 ms on."""
    words: list[dict[str, Any]] = []
    at = 0
    for _ in range(dice.randint(1, 40)):
        length = dice.choice([40, 200, 300, 700, 2500])
        word = dice.choice(
            ["a", "<b>", "r&d", "naïve", "extraordinarily", "3:30 PM", "seven-hundred", "x" * 50, *COMMON, *SPACELESS]
        )
        words.append({"word": word, "start_ms": at, "end_ms": at + length, "confidence": 0.5})
        at += length + dice.choice([0, 0, 0, 20, 400, 1600])
    text = " ".join(word["word"] for word in words)
    times = {"start_ms": 0, "end_ms": words[-1]["end_ms"], "audio_ms": words[-1]["end_ms"] + 500}
    return {"type": "final", "segment": number, "text": text, **times, "confidence": 0.5, "words": words}


def shift(final: dict[str, Any], by: int) -> int:
    """Move a final. Returns its new end."""
    for each in (final, *final["words"]):
        each["start_ms"] += by
        each["end_ms"] += by
    return int(final["end_ms"])
