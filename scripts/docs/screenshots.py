"""Takes the pictures in docs/pictures/ that a screen shows: a real browser or window, a real service, real words.

    python scripts/docs/screenshots.py [--output FOLDER] [--server URL] [--only NAME …]

Without `--server`, it starts a service. It needs Debian's chromium, and the font Inter (package fonts-inter), so that
the pictures look as on most people's machines. The picture of dictation needs Xvfb, xterm, xdotool and vim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import numpy as np
import soundfile  # type: ignore[import-untyped]
from numpy.typing import NDArray
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright
from Xlib import X
from Xlib.display import Display

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.client import connect
from streamer.client.sending import describe_audio, send_all
from streamer.commands.keyboard import find_keyboard
from streamer.commands.typist import FocusedWindow, Typist

ROOT: Final = Path(__file__).resolve().parents[2]
SAMPLES: Final = ROOT / "audio_samples"
RECORDING: Final = SAMPLES / "talk.flac"
SUBJECTS: Final = ("page", "speakers", "reading", "dictation")
TERMINAL: Final = (
    *("xterm", "-u8", "-fa", "DejaVu Sans Mono", "-fs", "11", "-bg", "#11191c", "-fg", "#e8eef0", "-bw", "0"),
    *("-b", "10", "-geometry", "74x11+0+0", "-e"),
)
EDITOR: Final = ("vim", "-u", "NONE", "-N", "+set textwidth=68 laststatus=2 showmode", "+normal G", "+startinsert")
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
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=SUBJECTS, help="only pictures of these subjects")
    arguments = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        print("A browser is missing: apt-get install chromium", file=sys.stderr)
        return 1
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_take_all(Path(folder), chromium, arguments.server, arguments.output, arguments.only))
    return 0


async def _take_all(folder: Path, chromium: str, server: str | None, output: Path, subjects: Sequence[str]) -> None:
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
        for subject in subjects:
            if subject == "dictation":
                await asyncio.to_thread(_take_dictation, site, output)
            else:
                await _TAKE[subject](browser, site, output)
        await browser.close()


async def _take_page(browser: Browser, site: str, output: Path) -> None:
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


async def _take_speakers(browser: Browser, site: str, output: Path) -> None:
    """Transcribe a conversation of three voices, and name two of them."""
    talk, pause = read_audio(RECORDING), np.zeros(SAMPLE_RATE // 2, np.int16)
    first, second = talk[: 9 * SAMPLE_RATE // 2], talk[26 * SAMPLE_RATE // 5 : 56 * SAMPLE_RATE // 5]
    parts = (first, read_audio(SAMPLES / "quilter.ogg"), second, read_audio(SAMPLES / "airplane.mp3"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversation.wav"
        soundfile.write(path, np.concatenate([each for part in parts for each in (pause, part)]), SAMPLE_RATE)
        size: ViewportSize = {"width": 1200, "height": 740}
        async with _page(await browser.new_context(viewport=size), site) as page:
            await page.click("#options-open")
            await page.get_by_label("Speakers", exact=True).select_option("3")
            await page.keyboard.press("Escape")
            await page.set_input_files("#file", path)
            await page.locator("#finals .who").nth(3).wait_for(timeout=PATIENCE_MS)
            await page.locator("body[data-doing=nothing]").wait_for(timeout=PATIENCE_MS)
            await page.get_by_role("button", name="Segment").click()
            await page.get_by_role("menuitem", name="Name who speaks").click()
            await page.get_by_label("Speaker 1").fill("Ada")
            await page.get_by_label("Speaker 2").fill("Roger")
            await page.keyboard.press("Enter")
            await page.get_by_text("Roger").first.wait_for()
            await page.mouse.click(5, 400)
            await page.wait_for_timeout(1000)
            await _keep(page, output / "speakers.png")


def _take_dictation(site: str, output: Path) -> None:
    """Type into an editor on a screen of its own, as `streamer mic --type` does with what the microphone hears."""
    reading, writing = os.pipe()
    server = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "690x224x24", "-nolisten", "tcp"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(server, pass_fds=(writing,), stderr=subprocess.DEVNULL) as screen,
    ):
        os.close(writing)
        with os.fdopen(reading) as answer:
            os.environ["DISPLAY"] = f":{answer.readline().strip()}"
        os.environ.pop("WAYLAND_DISPLAY", None)
        letter = Path(folder) / "letter.txt"
        letter.write_text("To: Ada\nSubject: What I read today\n\n\n", encoding="utf-8")
        with subprocess.Popen([*TERMINAL, *EDITOR, letter.name], cwd=folder) as window:
            search = ["xdotool", "search", "--sync", "--onlyvisible", "--class", "xterm"]
            name = subprocess.check_output(search, text=True).split()[0]
            subprocess.run(["xdotool", "windowfocus", "--sync", name], check=True)
            asyncio.run(_dictate(site))
            path = output / "dictation.png"
            _write_png(path, _screen())
            print(f"{path}  {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)
            window.terminate()
        screen.terminate()


async def _dictate(site: str) -> None:
    typist = Typist([FocusedWindow(find_keyboard())], lambda why: print(why, file=sys.stderr))
    async with connect(f"{site.replace('http', 'ws', 1)}/v1/stream", {"written": True}) as session:
        audio = read_audio(RECORDING)
        blocks = (audio[start : start + SAMPLE_RATE // 5] for start in range(0, len(audio), SAMPLE_RATE // 5))
        sending = asyncio.create_task(send_all(session, blocks, describe_audio({}), paced=False))
        async for event in session:
            await typist.take(event)
        await sending
    await typist.finish()
    await asyncio.sleep(1)  # the window draws the last words


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


def _screen() -> NDArray[np.uint8]:
    """Return the red, green and blue of all points of the screen."""
    display = Display()
    root = display.screen().root
    shape = root.get_geometry()
    content = root.get_image(0, 0, shape.width, shape.height, X.ZPixmap, 0xFFFFFFFF).data
    points = np.frombuffer(content, np.uint8).reshape(shape.height, shape.width, 4)
    display.close()
    return points[..., 2::-1]


def _write_png(path: Path, points: NDArray[np.uint8]) -> None:
    height, width, _ = points.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), points.reshape(height, -1)], axis=1)
    parts = {b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT": zlib.compress(rows.tobytes(), 9)}
    content = b"\x89PNG\r\n\x1a\n"
    for name, part in (*parts.items(), (b"IEND", b"")):
        content += struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
    path.write_bytes(content)


_TAKE: Final = {"page": _take_page, "speakers": _take_speakers, "reading": _take_reading_page}


@asynccontextmanager
async def _site(server: str | None) -> AsyncIterator[str]:
    if server is not None:
        yield server
        return
    triton = TritonServer(asr_repository(), models=[MODEL], instances=1, speakers=True)
    async with Service(triton, port=0) as service:
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
