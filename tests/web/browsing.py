"""A real browser for the tests: how it is found and started, what its microphone plays, and its complaints."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile
import soxr
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, WebError

from streamer.audio.audio_file import SAMPLE_RATE
from tests.samples import pcm

# The first is Chromium without the windows of a desktop, which takes a quarter less processor time in all tests here.
NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Most microphones have this rate, and it has to be converted.
MICROPHONE_RATE: Final = 48_000
FLAGS: Final = (
    "--no-sandbox",  # containers lack what the sandbox needs, and the tests open only our own pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # 64 MB in a container
    "--host-resolver-rules=MAP *.localtest 127.0.0.1",  # names of other sites, which are not secure by their address
)
FAKE_DEVICE: Final = "--use-fake-device-for-media-stream"
FAKE_CONSENT: Final = "--use-fake-ui-for-media-stream"
LAUNCH_MS: Final = 60_000


def chromium() -> Path:
    """The browser of this machine. It may be missing only on a developer's machine."""
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    missing = "a browser is missing: 'make system' installs chromium"
    if "CI" in os.environ:
        pytest.fail(missing)
    pytest.skip(missing)


async def launch(playwright: Playwright, microphone: Path | None = None, flags: Sequence[str] = ()) -> Browser:
    """Start a browser whose microphone plays a file once, or beeps. `flags` replace the automatic consent."""
    device = FAKE_DEVICE
    playing = [f"--use-file-for-fake-audio-capture={microphone}%noloop"] if microphone else []
    return await playwright.chromium.launch(
        executable_path=chromium(),
        args=[*FLAGS, *([*flags] if flags else [device, FAKE_CONSENT, *playing])],
        timeout=LAUNCH_MS,
    )


def microphone_file(folder: Path, name: str, lead_s: float = 1.0) -> Path:
    """A recording of `audio_samples/` as a WAV file for the browser's microphone, with silence first."""
    sound = np.frombuffer(pcm(name), "<i2").astype(np.float32) / 32768
    sound = soxr.resample(sound, SAMPLE_RATE, MICROPHONE_RATE)
    sound = np.concatenate([np.zeros(int(lead_s * MICROPHONE_RATE), np.float32), sound])
    path = folder / f"{Path(name).stem}-{lead_s:g}.wav"
    soundfile.write(path, sound, MICROPHONE_RATE, "PCM_16")
    return path


class Watch:
    """Records the complaints of the pages in a context, and connections to other machines than this one."""

    def __init__(self, context: BrowserContext, expected: Sequence[str] = ()) -> None:
        """`expected`: regular expressions of complaints that belong to the test."""
        self.complaints: list[str] = []
        self._expected = [re.compile(pattern) for pattern in expected]
        self._context = context
        context.on("page", self._follow)
        context.on("request", self._request)
        context.on("weberror", self._uncaught)

    def end(self) -> None:
        """Watch no more pages: those of another test come into the context."""
        self._context.remove_listener("page", self._follow)
        self._context.remove_listener("request", self._request)
        self._context.remove_listener("weberror", self._uncaught)

    def expect(self, pattern: str) -> None:
        """Expect complaints that match this from now on."""
        self._expected.append(re.compile(pattern))

    def _follow(self, page: Page) -> None:
        page.on("crash", lambda _: self._complain("the page crashed"))
        page.on("websocket", lambda websocket: self._asked(websocket.url))
        page.on("console", self._read)

    def _request(self, request: Request) -> None:
        self._asked(request.url)

    def _uncaught(self, error: WebError) -> None:
        self._complain(f"uncaught: {error.error}")

    def _read(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self._complain(f"console: {said.text}")

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about", "file") and parts.hostname not in ("127.0.0.1", "localhost"):
            self._complain(f"spoke to {url}")

    def _complain(self, complaint: str) -> None:
        if not any(pattern.search(complaint) for pattern in self._expected):
            self.complaints.append(complaint)
