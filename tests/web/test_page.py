"""The page itself: options, turns, formats, scripts without spaces, and a strict policy."""

from __future__ import annotations

import json
import random
from typing import Any

from playwright.async_api import Locator, Page, expect

from streamer.base.transcript import Transcript
from tests.project import ROOT
from tests.transcript_events import final as spoken
from tests.transcript_events import word
from tests.web.conftest import OpenPage
from tests.web.visitor import PATIENCE_MS, doing, drop, said, transcribed, write, written

CASES = json.loads((ROOT / "tests/base/transcript_cases.json").read_text(encoding="utf-8"))
# The division of lines depends on which words these are.
COMMON = ("the", "and", "of", "to", "because", "gravel", "wine", "adventure", "there", "whirled")
# Words of scripts without spaces, with marks and figures, and what is around them.
SPACELESS = (*"今日は東京にいる", "他。", "“你", "好”，", "「は", "い」", "2024", "年", "— (", "．")
TEXTS = ["ab cd", "今日は", "今日は、 OK 東京2024年", "今日は東京 OK", "我 A 是的"]


async def test_options_are_remembered(open_page: OpenPage, shipped_site: str) -> None:
    """Options are still set after a reload, are sent to the service, and can be reset."""
    page = await open_page(shipped_site)
    sent: list[str] = []
    page.on("websocket", lambda websocket: websocket.on("framesent", lambda frame: sent.append(str(frame))))
    await page.click("#options-open")
    await expect(page.get_by_role("dialog", name="Options")).to_be_visible()
    await page.get_by_label("Names and words to listen for").fill("mister quilter\n\n gospel ")
    await page.get_by_label("A sentence ends after").select_option("2000")
    await page.get_by_label("Words appear").select_option("160")
    await page.get_by_label("Marks, capitals and figures").uncheck()
    await page.get_by_label("Dictated marks").check()
    await page.get_by_label("Swear words").select_option("mask")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.reload()
    assert (await transcribed(page, "airplane.mp3", 2.5))[0].islower()
    assert started(sent) == {
        "type": "start",
        "partial_words": True,
        "second_pass": "reader",
        "hotwords": ["mister quilter", "gospel"],
        "endpoint": {"after_text_ms": 2000},
        "step_ms": 160,
        "profanity": "mask",
    }
    await page.click("#options-open")
    await expect(page.get_by_label("Names and words to listen for")).to_have_value("mister quilter\n\n gospel ")
    await expect(page.get_by_label("Marks, capitals and figures")).not_to_be_checked()
    await page.get_by_label("Marks, capitals and figures").check()
    await page.get_by_role("button", name="Done").click()
    await page.reload()
    assert (await transcribed(page, "airplane.mp3", 2.5))[0].isupper()
    assert started(sent)["written"] is started(sent)["dictation"] is True
    await page.click("#options-open")
    await page.get_by_role("button", name="Reset to defaults").click()
    await expect(page.get_by_label("A sentence ends after")).to_have_value("1000")
    await page.get_by_role("button", name="Done").click()
    await page.reload()
    await transcribed(page, "airplane.mp3", 2.5)
    assert started(sent) == {"type": "start", "partial_words": True, "second_pass": "reader", "written": True}


def started(sent: list[str]) -> Any:
    """How the page began its last session."""
    return [json.loads(frame) for frame in sent if '"start"' in frame][-1]


async def test_turns_are_marked(open_page: OpenPage) -> None:
    """With the option for it, a mark shows where somebody had finished, also when the history shows it again."""
    page = await open_page("/")
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
    await drop(page, said("hello"))
    await expect(page.locator("#notice h2")).to_have_text("The service refuses this")
    await expect(page.locator("#notice p")).to_contain_text("words")
    await page.get_by_role("button", name="Open the options").click()
    await expect(page.get_by_label("Names and words to listen for")).to_be_visible()


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
    await write(page, "hello.wav", "hello")
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
    await page.goto(site)
    await write(page, "hello.wav", "hello")
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


async def test_formats_are_those_of_the_command_line(shared_bench: Page) -> None:
    """Text, SRT and VTT of any transcript are identical to those of the command line, JSON has the same content."""
    dice = random.Random(7)
    sheets = [[segment(dice, number) for number in range(dice.randint(0, 5))] for _ in range(150)]
    for number, each in enumerate(sheets):
        at = 0
        for final in each:
            at = shift(final, at + dice.choice([0, 40, 900, 4000, 6000]))
            if dice.random() < 0.2:
                final["words"] = None
            if number % 3 == 0:
                final["channel"] = dice.randint(0, 1)
            if number % 4 == 0:
                final["speaker"] = dice.randint(0, 2)
                for each_word in final["words"] or ():
                    if dice.random() < 0.5:
                        each_word["speaker"] = dice.randint(0, 2)
    hostile = word("a\x1b]52;c;Yg==\x07\x9b2J\u202eb\r\n\n9\u2028c\u200cd\U000e0041", 0, 400)
    sheets.append([spoken(hostile)])
    transcripts = [Transcript("a.wav") for _ in sheets]
    names = ["", "Ada"]
    for number, (each, transcript) in enumerate(zip(sheets, transcripts, strict=True)):
        for event in (*each, {"type": "done", "audio_ms": 9_000_000}):
            transcript.add(event)
        transcript.speaker_names = names
        if number % 5 == 0:
            transcript.complete = False
            transcript.recording_ms = 9_123_456
    # As JSON, because Playwright takes seconds for as many values.
    cases = json.dumps([[transcript.segments, transcript.stopped_ms] for transcript in transcripts])
    found = await shared_bench.evaluate(
        """async ([cases, speakerNames]) => {
            const {FORMATS} = await load("page/transcript/formats");
            return JSON.stringify(JSON.parse(cases).map(([segments, stoppedMs]) => {
                const recordingMs = stoppedMs === null ? 0 : 9123456;
                const times = {durationMs: 9e6, recordingMs, stoppedMs};
                const transcript = {file: "a.wav", ...times, channelNames: [], speakerNames, segments};
                const formats = Object.entries(FORMATS);
                return Object.fromEntries(formats.map(([name, {write}]) => [name, write(transcript)]));
            }));
        }""",
        [cases, names],
    )
    for transcript, made in zip(transcripts, json.loads(found), strict=True):
        for format in ("text", "srt", "vtt"):
            assert made[format] == transcript.render(format), transcript.segments
        assert json.loads(made["json"]) == json.loads(transcript.render("json"))


async def test_formats_are_those_of_all_writers(shared_bench: Page) -> None:
    """The page makes of each case what the command line makes of it, with times too."""
    made = await shared_bench.evaluate(
        """async (cases) => {
            const {FORMATS} = await load("page/transcript/formats");
            const {readTranscripts} = await load("page/transcript/saved");
            return JSON.stringify(JSON.parse(cases).map(({json}) => {
                const [transcript] = readTranscripts(JSON.stringify(json), "case.json");
                const formats = Object.entries(FORMATS);
                return Object.fromEntries(formats.map(([name, {write}]) => [name, write(transcript)]));
            }));
        }""",
        json.dumps(CASES),
    )
    for case, formats in zip(CASES, json.loads(made), strict=True):
        expected = {name: case[name] for name in ("text", "times", "srt", "vtt")}
        assert {name: formats[name] for name in expected} == expected, case["name"]
        assert json.loads(formats["json"]) == case["json"], case["name"]


async def test_scripts_without_spaces(shared_bench: Page) -> None:
    """Partials and finals show the text as it came, and each character is a word that may be stable or not."""
    shown = await shared_bench.evaluate(
        """async (texts) => {
            const {Words} = await load("page/transcript/words");
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
