"""The page for everybody: contrast, a phone, a small window, the keyboard, a screen reader, less movement."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.samples import reference
from tests.web.conftest import OpenPage
from tests.web.visitor import FAINT, doing, drop, said, write

CONTROLS = ("history-open", "options-open", "keys-open", "programs-open", "file", "speak")
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
# The words in sight that the tooltip covers.
COVERED = """() => {
    const tip = document.querySelector("[role=tooltip]").getBoundingClientRect();
    const bottom = document.getElementById("dock").getBoundingClientRect().top;
    return [...document.querySelectorAll("#finals .word")].filter((word) => {
        const box = word.getBoundingClientRect();
        const apart = box.right <= tip.left || box.left >= tip.right || box.bottom <= tip.top || box.top >= tip.bottom;
        return !apart && box.top < bottom;
    }).map((word) => word.textContent);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_contrast(open_page: OpenPage, site: str, scheme: Any) -> None:
    """Every text has enough contrast, including grey words, options and messages; dark is dark."""
    page = await open_page()
    await page.emulate_media(color_scheme=scheme)
    await page.goto(site)
    assert (await page.evaluate(FAINT))["faint"] == []
    await page.get_by_label("As spoken").check()
    await drop(page, said("grey words turn black"))
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
    await write(page, "words.wav", "these are a few words", "and more")
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
async def test_a_small_window(open_page: OpenPage, site: str, height: int) -> None:
    """At 320 pixels (400 % zoom), header and transcript stay visible, even at the end of a long transcript."""
    page = await open_page()
    await page.set_viewport_size({"width": 320, "height": height})
    await page.goto(site)
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


async def test_every_control_by_keyboard(open_page: OpenPage) -> None:
    """Tab reaches every control in the order of the page, with a visible outline."""
    page = await open_page("/")
    reached = await tabbed(page)
    assert [name for name in reached if name in CONTROLS] == list(CONTROLS)
    assert "pace" in reached
    await write(page, "words.wav", "these are a few words", "and more")
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
    await write(page, "words.wav", "these are a few words", "and more")
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


async def test_what_is_said_about_a_word(open_page: OpenPage) -> None:
    """Time and confidence of a word cover no other word, and stand in a landmark; a time has no label of its own."""
    page = await open_page("/")
    await page.set_viewport_size({"width": 900, "height": 420})
    words = reference("talk.flac").split()
    await drop(page, said(*(" ".join(words[start : start + 20]) for start in range(0, len(words), 20))))
    await expect(page.locator("#finals .word")).to_have_count(len(words), timeout=60_000)
    await doing(page, "nothing")
    for number in (0, 25, len(words) - 1):
        await page.locator("#finals .word").nth(number).scroll_into_view_if_needed()
        await page.locator("#finals .word").nth(number).hover()
        await expect(page.get_by_role("tooltip")).to_be_in_viewport(ratio=1)
        assert await page.evaluate(COVERED) == []
    assert await page.locator(":is(main, header, footer, section) [role=tooltip]").count() == 1
    assert await page.locator("time[aria-label]").count() == 0


async def test_less_movement(open_page: OpenPage, site: str) -> None:
    """With reduced motion there are no animations, and the waveform is drawn at most four times a second."""
    page = await open_page()
    await page.emulate_media(reduced_motion="reduce")
    await page.goto(site)
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
