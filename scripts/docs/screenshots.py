"""Takes the pictures of the page in docs/pictures/: a real browser, a real service, real words.

    python scripts/docs/screenshots.py [--output FOLDER] [--server URL]

Without `--server`, it starts a service. It needs Debian's chromium, and the font Inter (package fonts-inter), so that
the pictures look as on most people's machines.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import numpy as np
import soundfile  # type: ignore[import-untyped]
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer

ROOT: Final = Path(__file__).resolve().parents[2]
RECORDING: Final = ROOT / "audio_samples" / "talk.flac"
LEAD_S: Final = 0.4
PATIENCE_MS: Final = 120_000
# The sandbox of chromium does not work in containers.
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
INTER: Final = Path("/usr/share/fonts/opentype/inter")
# A bare Debian has a font that hardly anybody uses.
FONTS: Final = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
<include>/etc/fonts/fonts.conf</include>
<selectfont><rejectfont><glob>*/dejavu/*</glob></rejectfont></selectfont>
</fontconfig>"""


def main() -> int:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "pictures", help="folder for the pictures")
    parser.add_argument(
        "--server", metavar="URL", help="the page of a service that already runs, such as http://127.0.0.1:8080"
    )
    arguments = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        print("A browser is missing: apt-get install chromium", file=sys.stderr)
        return 1
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_take_all(Path(folder), chromium, arguments.server, arguments.output))
    return 0


async def _take_all(folder: Path, chromium: str, server: str | None, output: Path) -> None:
    fonts, voice = folder / "fonts.conf", folder / "voice.wav"
    fonts.write_text(FONTS)
    silence = np.zeros(int(LEAD_S * SAMPLE_RATE), np.int16)
    soundfile.write(voice, np.concatenate([silence, read_audio(RECORDING)]), SAMPLE_RATE)
    microphone = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    async with _site(server) as site, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            args=[*FLAGS, *microphone, f"--use-file-for-fake-audio-capture={voice}%noloop"],
            env={**os.environ, **({"FONTCONFIG_FILE": str(fonts)} if INTER.is_dir() else {})},
        )
        await _take(browser, site, output)
        await browser.close()


async def _take(browser: Browser, site: str, output: Path) -> None:
    desk: ViewportSize = {"width": 1200, "height": 720}
    phone: ViewportSize = {"width": 390, "height": 760}
    async with _page(await browser.new_context(viewport=desk), site) as page:
        await page.click("#speak")
        # In the middle of the last sentence.
        await page.locator("#finals > p").nth(2).wait_for(timeout=PATIENCE_MS)
        await page.locator("#partial .word").nth(11).wait_for(timeout=PATIENCE_MS)
        await page.wait_for_function("() => document.getElementById('level').ariaValueNow > 40")
        await _keep(page, output / "listening.png")
        captions = await page.context.new_page()
        await captions.set_viewport_size({"width": 960, "height": 270})
        await captions.goto(f"{site}/captions?background=transparent")
        picture = "linear-gradient(#274046, #101820)"  # of a video, behind the lines
        await captions.evaluate("(picture) => (document.documentElement.style.background = picture)", picture)
        await captions.locator("#lines p").nth(1).wait_for(timeout=PATIENCE_MS)
        await _keep(captions, output / "captions.png")
    async with _page(await browser.new_context(viewport=desk, color_scheme="dark"), site) as page:
        await _transcribe(page)
        await page.locator("#finals .word").nth(9).click()
        await page.locator("#finals .word").nth(26).hover()
        await _keep(page, output / "playing-dark.png")
    async with _page(await browser.new_context(viewport=phone), site) as page:
        await _transcribe(page)
        await page.locator("#finals .word").nth(28).click()
        await page.mouse.move(5, 400)
        await _keep(page, output / "phone.png")
        await page.click("#options-open")
        await page.wait_for_timeout(500)
        await _keep(page, output / "phone-options.png")
    await _take_reading_page(browser, site, output)


async def _take_reading_page(browser: Browser, site: str, output: Path) -> None:
    """Save a page for reading as a user does, and open it from disk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "talk.html"
        async with _page(await browser.new_context(), site) as page:
            await _transcribe(page)
            await page.click("#save")
            async with page.expect_download() as saving:
                await page.click("[data-deed=html]")
            await (await saving.value).save_as(path)
        page = await browser.new_page(viewport={"width": 960, "height": 420})
        await page.goto(path.as_uri())
        await page.fill("input", "the")
        await page.locator("[data-to]").nth(14).click()
        await page.locator(".now").wait_for(timeout=PATIENCE_MS)
        await _keep(page, output / "reading.png")
        await page.close()


async def _transcribe(page: Page) -> None:
    await page.set_input_files("#file", RECORDING)
    await page.locator("#finals > p").nth(3).wait_for(timeout=PATIENCE_MS)
    await page.locator("body[data-doing=nothing]").wait_for(timeout=PATIENCE_MS)
    await page.wait_for_timeout(1000)


async def _keep(page: Page, path: Path) -> None:
    content = await page.screenshot(path=path)
    print(f"{path}  {len(content) / 1000:.0f} kB", file=sys.stderr)


@asynccontextmanager
async def _site(server: str | None) -> AsyncIterator[str]:
    if server is not None:
        yield server
        return
    async with Service(TritonServer(asr_repository(), models=[MODEL], instances=1), port=0) as service:
        yield f"http://127.0.0.1:{service.port}"


@asynccontextmanager
async def _page(context: BrowserContext, site: str) -> AsyncIterator[Page]:
    page = await context.new_page()
    await page.goto(site)
    await page.locator("#state[data-state=ready]").wait_for(timeout=PATIENCE_MS)
    yield page
    await context.close()


if __name__ == "__main__":
    sys.exit(main())
