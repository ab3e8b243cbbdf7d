"""Checks services: one on the usual port, one that the user named, and one that is started for a trial."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from streamer.base.address import DEFAULT_HOST, DEFAULT_PORT, is_ready
from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.package import PACKAGE
from streamer.base.text import joined, noun, words_of
from streamer.base.timing import Timing
from streamer.bridge.triton import TritonError
from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding
from streamer.commands.service import EMBEDDED
from streamer.models.library import SHIPPED, ModelLibrary

SAMPLE: Final = PACKAGE.parent / "audio_samples" / "quilter.ogg"  # only in a clone
NOISE_S: Final = 2

_PATIENCE_S: Final = 2.0
_TRIAL_S: Final = 120.0


def port() -> Iterator[Finding]:
    """Report what listens on the default port of `serve`."""
    address, subject = f"port {DEFAULT_PORT} of {DEFAULT_HOST}", f"port {DEFAULT_PORT}"
    if is_ready(DEFAULT_HOST, DEFAULT_PORT):
        status = _probe(f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/readyz")
        most = status.get("sessions_limit", "?")
        sessions = f"{status.get('sessions', '?')} of {most} {noun(most if isinstance(most, int) else 0, 'session')}"
        yield Finding(subject, FINE, f"a Streamer service listens there and is ready ({sessions}): commands use it")
        return
    try:
        with socket.create_server((DEFAULT_HOST, DEFAULT_PORT)):
            pass
        yield Finding(subject, FINE, f"{address} is free")
    except OSError as error:
        status = _probe(f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/readyz")
        if status.get("service") == "streamer":
            yield Finding(subject, WARNING, "a Streamer service listens there, but is not ready", "read its log")
        else:
            message = f"{address} cannot be used: {error.strerror}"
            yield Finding(subject, WARNING, message, "streamer serve --port 8081, or stop the other program")


def named_service(url: str) -> Iterator[Finding]:
    """Check whether the service with this URL opens a session and recognises something."""
    from streamer.client.connection import without_query

    yield asyncio.run(_recognise("service", url, without_query(url)))


def trial(folder: Path | None = None) -> Iterator[Finding]:
    """Start a service, transcribe a recording and stop it, as `streamer FILE` does. `folder`: that of a public model.

    The recording is English, so a public model need not find words in it.
    """
    from streamer.commands.service import chosen_service

    began = time.monotonic()
    try:
        with chosen_service(EMBEDDED, Timing(), folder) as ready_service:

            async def work() -> Finding:
                async with ready_service() as url:
                    ready = time.monotonic() - began
                    where = f"a service was started in {ready:.1f} s"
                    return await _recognise("trial", url, where, silent=folder is not None)

            yield asyncio.run(work())
    except TritonError as error:
        reason, _, remedy = str(error).partition(": pip install ")
        yield Finding("trial", WRONG, reason, f"pip install {remedy}" if remedy else "")


async def _recognise(subject: str, url: str, where: str, *, silent: bool = False) -> Finding:
    """Let a service recognise the sample. `silent`: it need not find words."""
    from streamer.client import SessionError

    began = time.monotonic()
    task = asyncio.ensure_future(_words(url))
    # Not with wait_for: before Python 3.12 it can swallow a cancellation.
    timer = asyncio.get_running_loop().call_later(_TRIAL_S, task.cancel)
    try:
        words, seconds = await task
    except SessionError as error:
        remedy = "STREAMER_KEY=… before the command, or --key-file FILE" if error.code == ErrorCode.UNAUTHORIZED else ""
        return Finding(subject, WRONG, str(error), remedy)
    except asyncio.CancelledError:
        if timer.when() > asyncio.get_running_loop().time():
            raise
        return Finding(subject, WRONG, f"{where}: it recognised nothing within {_TRIAL_S:g} s")
    finally:
        timer.cancel()
    took = time.monotonic() - began
    if SAMPLE.exists() and not words and not silent:
        # The recording is English. A default model for another language need not find words in it.
        state = WRONG if ModelLibrary().default == SHIPPED else WARNING
        return Finding(subject, state, f"{where}, and recognised nothing of {SAMPLE.name}")
    text = f"{where}, and recognised {seconds:.1f} s of audio in {took:.1f} s"
    return Finding(subject, FINE, f"{text}: “{joined(words[:6])} …”" if words else text)


async def _words(url: str) -> tuple[list[str], float]:
    """Return the recognised words, and the length of the audio: the sample, or noise if the sample is not there."""
    from streamer.audio.audio_file import SAMPLE_RATE, read_audio
    from streamer.client import transcribe

    audio = read_audio(SAMPLE) if SAMPLE.exists() else _noise(NOISE_S * SAMPLE_RATE)
    words = []
    async for event in transcribe([audio], url):
        if event["type"] == "final":
            words += words_of(event["text"])
    return words, len(audio) / SAMPLE_RATE


def _noise(samples: int) -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(0, 100, samples).astype(np.int16)


def _probe(url: str) -> JsonObject:
    """Return the answer of a service to a probe; empty if there is none."""
    try:
        # An answer with status 503 is read as well.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _AnyStatus())
        with opener.open(url, timeout=_PATIENCE_S) as answer:
            content = json.loads(answer.read(1 << 16))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Accepts an answer with any status."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response
