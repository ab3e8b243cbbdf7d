"""The command `serve`, run as a program in front of the Triton that the tests share."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

from streamer.triton.server import TritonServer
from tests.bridge.clients import recognise, text
from tests.samples import pcm
from tests.serve_process import serving

# Nobody listens there.
DEAD = "http://127.0.0.1:9"


async def test_text(triton: TritonServer) -> None:
    """Its address, then a line an event, each of a session with its id; after SIGTERM it ends with 0."""
    with serving("--triton", triton.grpc_address) as served:
        assert served.lines[-1].startswith("streamer: ready: ")
        assert text(await recognise(served.url, pcm("talk.flac")[:100_000]))
        assert served.end() == 0
    of_session = [line for line in served.lines if " session=" in line]
    assert len({re.search(r" session=(\w+)", line)[1] for line in of_session}) == 1
    assert re.match(r"\S+Z info ready session=\w+ encoding=pcm_s16le sample_rate=16000 channels=1$", of_session[0])
    assert re.match(r"\S+Z info ended session=\w+ reason=done audio_ms=3125$", of_session[-1])


async def test_json(triton: TritonServer) -> None:
    """Every line is an object, also what is said to whoever started it."""
    with serving("--triton", triton.grpc_address, "--log-format", "json") as served:
        await recognise(served.url, pcm("talk.flac")[:100_000])
        assert served.end() == 0
    lines = [json.loads(line) for line in served.lines]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    assert [line["event"] for line in lines if "session" in line] == ["ready", "ended"]


async def test_level(triton: TritonServer) -> None:
    """At a higher level there are no lines for sessions that are as they should be."""
    with serving("--triton", triton.grpc_address, "--log-level", "warning") as served:
        await recognise(served.url, pcm("talk.flac")[:100_000])
        assert served.end() == 0
    assert not any("session=" in line for line in served.lines)


async def test_a_dead_collector(triton: TritonServer) -> None:
    """Traces that nobody takes disturb no session, and the end is not much later for it."""
    with serving("--triton", triton.grpc_address, "--traces", DEAD) as served:
        assert text(await recognise(served.url, pcm("talk.flac")[:100_000]))
        began = time.monotonic()
        assert served.end() == 0
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("wrong", [("--log-format", "xml"), ("--log-level", "loud")])
def test_wrong_options(wrong: tuple[str, str]) -> None:
    """A form or level that does not exist is named, with those that do."""
    done = subprocess.run(
        [sys.executable, "-m", "streamer", "serve", *wrong], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert wrong[1] in done.stderr
    assert "choose from" in done.stderr
