"""What a user does on the page of the service, and what they see there."""

from __future__ import annotations

import base64
import io
import re
from typing import Any, Final

import numpy as np
import soundfile
from playwright.async_api import Page, expect

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.testing import say, silence
from tests.samples import pcm

# For results of a recogniser; the page itself is faster.
PATIENCE_MS: Final = 60_000
# A browser itself writes this to the console when nobody answers; a page cannot prevent it.
NOBODY: Final = (r"WebSocket connection to", r"Failed to load resource")
DROP: Final = """async (files) => {
    const dataTransfer = new DataTransfer();
    for (const [bytes, name] of files) {
        const content = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
        dataTransfer.items.add(new File([content], name));
    }
    const seen = [];
    for (const type of ["dragenter", "dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true}));
        seen.push(document.getElementById("drop").checkVisibility());
    }
    return seen;
}"""

# Every visible text with too little contrast: WCAG AA requires 4.5, or 3 for large text.
FAINT: Final = """() => {
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


def wave_file(name: str, seconds: float | None = None, noise: float = 0.0) -> bytes:
    """A recording of `audio_samples/`, or its beginning, as samples for other clients, with noise of this loudness."""
    file = io.BytesIO()
    samples = np.frombuffer(pcm(name), "<i2")[: None if seconds is None else int(seconds * SAMPLE_RATE)]
    if noise:
        added = np.random.default_rng(0).normal(0, 32768 * noise, len(samples))
        samples = (samples + added).clip(-32768, 32767).astype(np.int16)
    soundfile.write(file, samples, SAMPLE_RATE, "PCM_16", format="WAV")
    return file.getvalue()


def said(*sentences: str, pause_ms: int = 1300) -> bytes:
    """A recording in which a service of `streamer.testing` recognises these sentences, each as one final."""
    pieces = [piece for sentence in sentences for piece in (say(sentence), silence(pause_ms))]
    file = io.BytesIO()
    soundfile.write(file, np.concatenate(pieces), SAMPLE_RATE, "PCM_16", format="WAV")
    return file.getvalue()


async def drop(page: Page, content: bytes, name: str = "talk.wav", **more: bytes) -> list[bool]:
    """Drop one or several files on the page. Returns for each event whether the page said that it may be dropped."""
    files = {name: content, **more}
    return list(await page.evaluate(DROP, [[base64.b64encode(each).decode(), name] for name, each in files.items()]))


async def doing(page: Page, what: str) -> None:
    """Wait until the page does this."""
    await expect(page.locator("body")).to_have_attribute("data-doing", what, timeout=PATIENCE_MS)


async def transcribed(page: Page, name: str = "quilter.ogg", seconds: float | None = None, noise: float = 0.0) -> str:
    """Drop a recording, or its beginning, and return its words when all are there."""
    await drop(page, wave_file(name, seconds, noise), f"{name.partition('.')[0]}.wav")
    await doing(page, "transcribing")
    await doing(page, "nothing")
    return await written(page)


async def write(page: Page, name: str, *sentences: str) -> str:
    """Drop a recording with these sentences for an exact model, and return its words when all are there."""
    await drop(page, said(*sentences), name)
    await expect(page.locator("#finals")).to_contain_text(sentences[-1], ignore_case=True, timeout=PATIENCE_MS)
    await doing(page, "nothing")
    return await written(page)


async def written(page: Page) -> str:
    """All final words."""
    return " ".join(await page.locator("#finals .word").all_inner_texts())


async def words(page: Page) -> list[dict[str, Any]]:
    """The final words with what the page shows about them."""
    return list(
        await page.locator("#finals .word").evaluate_all(
            "all => all.map((word) => ({text: word.innerText, told: word.dataset.told,"
            " start: Number(word.dataset.start), doubtful: getComputedStyle(word).textDecorationLine === 'underline'}))"
        )
    )


async def listened(page: Page) -> None:
    """From now on, collect in `heard` the numbers of the words that are marked during playback."""
    await page.evaluate(
        """() => {
            globalThis.heard = [];
            new MutationObserver(() => {
                const all = [...document.querySelectorAll("#finals .word")];
                const marked = all.findIndex((one) => one.matches(".heard"));
                if (marked >= 0 && heard.at(-1) !== marked) heard.push(marked);
            }).observe(document.querySelector("#finals"), {subtree: true, attributeFilter: ["class"]});
        }"""
    )


async def place(page: Page) -> float:
    """The position of the player in seconds."""
    return float(await page.locator("#wave").get_attribute("aria-valuenow") or "nan")


def seconds(told: str) -> list[float]:
    """The times in the description of a word, such as 0:03.2."""
    return [60 * int(minutes) + float(rest) for minutes, rest in re.findall(r"(\d+):([\d.]+)", told)]


async def saved(page: Page, format: str) -> str:
    """The file that the page saves in this format."""
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_role("menuitem", name=format).click()
    return (await (await saving.value).path()).read_text()
