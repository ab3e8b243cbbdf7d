"""Recordings with a voice on each channel: recognised as such, and written channel by channel."""

from __future__ import annotations

import io
import json

import numpy as np
import soundfile
from numpy.typing import NDArray
from playwright.async_api import Page, expect

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.testing import say, silence
from tests.project import ROOT
from tests.web.conftest import OpenPage
from tests.web.visitor import PATIENCE_MS, doing, drop

Sound = NDArray[np.int16]

CALLS = json.loads((ROOT / "tests/audio/call_cases.json").read_text(encoding="utf-8"))


def call() -> bytes:
    """Two voices, each on a channel of its own, in turn."""
    turns = [("how are you today", 0), ("fine and what about you", 1), ("very well indeed", 0)]
    channels: tuple[list[Sound], list[Sound]] = ([], [])
    for text, channel in turns:
        voice, pause = say(text), silence(1300)
        for number, pieces in enumerate(channels):
            pieces += [voice if number == channel else np.zeros_like(voice), pause]
    return wave(np.stack([np.concatenate(pieces) for pieces in channels], axis=1))


def wave(sound: Sound) -> bytes:
    """A WAV file."""
    file = io.BytesIO()
    soundfile.write(file, sound, SAMPLE_RATE, "PCM_16", format="WAV")
    return file.getvalue()


async def rows(page: Page) -> list[list[str]]:
    """Who said what."""
    return list(
        await page.locator("#finals .words").evaluate_all(
            "all => all.map((place) => [place.querySelector('.who')?.textContent ?? '',"
            " [...place.querySelectorAll('.word')].map((word) => word.textContent).join(' ')])"
        )
    )


async def test_a_call_is_offered_apart(open_page: OpenPage) -> None:
    """The page says that the channels have voices; one click writes them apart, in the order of their times."""
    page = await open_page("/")
    await drop(page, call(), "call.wav")
    await expect(page.locator("#notice")).to_contain_text("a voice of its own", timeout=PATIENCE_MS)
    await page.get_by_role("button", name="Write them apart").click()
    await expect(page.locator("#finals .who")).to_have_count(3, timeout=PATIENCE_MS)  # the mixed transcript has none
    await doing(page, "nothing")
    expected = [
        ["Channel 1", "How are you today"],
        ["Channel 2", "Fine and what about you"],
        ["Channel 1", "Very well indeed"],
    ]
    assert await rows(page) == expected
    await page.reload()
    await page.locator("body[data-ready]").wait_for()
    assert await rows(page) == expected
    await page.click("#history-open")
    await expect(page.locator("#kept li")).to_have_count(1)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Segment").click()
    await page.get_by_role("menuitem", name="Name who speaks").click()
    await page.get_by_label("Channel 2").fill("Ada")
    await page.keyboard.press("Enter")
    assert [who for who, _ in await rows(page)] == ["Channel 1", "Ada", "Channel 1"]
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_role("menuitem", name="Text .txt").click()
    text = (await (await saving.value).path()).read_text()
    assert text == "[1] How are you today\n\n[Ada] Fine and what about you\n\n[1] Very well indeed\n"
    await page.keyboard.press("Control+z")
    await expect(page.locator(".who").nth(1)).to_have_text("Channel 2")


async def test_always_apart(open_page: OpenPage) -> None:
    """With the option, channels are apart without a question, and a recording with one channel is as before."""
    page = await open_page("/")
    await page.click("#options-open")
    await page.get_by_label("Recordings with several channels").select_option("apart")
    await page.keyboard.press("Escape")
    await drop(page, call(), "call.wav", **{"one.wav": wave(np.concatenate([say("only me"), silence(900)]))})
    await expect(page.locator("#notice")).to_contain_text("2 recordings are transcribed", timeout=PATIENCE_MS)
    assert await rows(page) == [["", "Only me"]]
    await page.click("#history-open")
    await page.locator("button.kept", has_text="call").click()
    await expect(page.locator("#finals .words")).to_have_count(3)
    assert [who for who, _ in await rows(page)] == ["Channel 1", "Channel 2", "Channel 1"]


async def test_what_is_a_call(shared_bench: Page) -> None:
    """The page takes the same recordings for calls as the command line, however their samples are divided."""
    calls = await shared_bench.evaluate(
        """async (cases) => {
            const {Voices} = await load("decoding/voices");
            const isCall = ({rate, times, parts}, size) => {
                const voices = new Voices(rate);
                for (const [seconds, ...levels] of Array(times).fill(parts).flat()) {
                    const sounds = levels.map((level) => {
                        const loud = level === null ? 0 : 10 ** (level / 20);
                        const length = Math.round(seconds * rate);
                        return Float32Array.from({length}, (_, at) => (at % 2 ? -loud : loud));
                    });
                    for (let at = 0; at < sounds[0].length; at += size) {
                        voices.push(...sounds.map((sound) => sound.subarray(at, at + size)));
                    }
                }
                return voices.apart;
            };
            return JSON.parse(cases).map((one) => [one.name, isCall(one, Infinity), isCall(one, 777)]);
        }""",
        json.dumps(CALLS),
    )
    assert calls == [[case["name"], case["call"], case["call"]] for case in CALLS]
