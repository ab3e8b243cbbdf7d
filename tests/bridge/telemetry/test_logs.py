"""The log: what its lines contain, what they do not contain, and in which form."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Json, Log, Text
from streamer.triton.server import TritonServer
from tests.bridge.service_client import receive, rest, serving, session, text
from tests.samples import pcm
from tests.triton_processes import no_streams

log = Log("streamer.tested")


@contextmanager
def written(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    """Return what streamer logs meanwhile, at every level."""
    stream, root = io.StringIO(), logging.getLogger("streamer")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def test_text() -> None:
    """A line has time, level, event, and fields that a program can read."""
    with written(Text()) as stream:
        log.warning("request failed", stream=0, code="overdue", detail='no "answer"\nsession=forged', rest=None)
    line = stream.getvalue()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning request failed stream=0 code=overdue ", line)
    assert line.endswith(' detail="no \\"answer\\"\\nsession=forged" rest=null\n')
    assert line.count("\n") == 1


def test_json() -> None:
    """The JSON form has the same fields, as one object on each line."""
    with written(Json()) as stream:
        log.warning("request failed", stream=0, detail="no answer\nat all")
    fields = json.loads(stream.getvalue())
    assert fields.pop("time").endswith("Z")
    assert fields == {"level": "warning", "event": "request failed", "stream": 0, "detail": "no answer\nat all"}


def test_event_stays_on_its_line() -> None:
    """Nothing that is logged can begin a new line."""
    with written(Text()) as stream:
        log.info("%s", "one\nanother")
    assert stream.getvalue().endswith("info one\\nanother\n")
    assert stream.getvalue().count("\n") == 1


def test_exception() -> None:
    """A fault of the service is logged with its traceback: after the line in text, in the object in JSON."""
    for formatter in (Text(), Json()):
        with written(formatter) as stream:
            try:
                raise KeyError("missing")
            except KeyError:
                log.exception("the bridge failed", stream=1)
        first, *more = stream.getvalue().splitlines()
        if isinstance(formatter, Json):
            assert not more
            assert json.loads(first)["exception"].endswith("KeyError: 'missing'")
        else:
            assert first.endswith("error the bridge failed stream=1")
            assert more[0].startswith("Traceback")
            assert more[-1] == "KeyError: 'missing'"


async def test_the_session_is_that_of_the_task() -> None:
    """Tasks of several sessions, and tasks that they start, each log their own session; other tasks log none."""

    async def one(number: str) -> None:
        logs.session.set(number)

        async def part() -> None:
            await asyncio.sleep(0)
            log.info("worked", by=number)

        await asyncio.gather(*(asyncio.create_task(part()) for _ in range(3)))

    with written(Json()) as stream:
        await asyncio.gather(*(asyncio.create_task(one(f"s{number}")) for number in range(5)))
        log.info("idle")
    *lines, last = map(json.loads, stream.getvalue().splitlines())
    assert len(lines) == 15
    assert all(line["session"] == line["by"] for line in lines)
    assert "session" not in last


async def test_a_session_in_the_log(shipped_triton: TritonServer) -> None:
    """Each line of a session names it, and contains no words, no hotwords and no token."""
    with written(Json()) as stream:
        async with serving(shipped_triton) as service:
            async with session(service.url, hotwords=["zanzibar quetzal"]) as websocket:
                await websocket.send(pcm("airplane.mp3"))
                await websocket.send('{"type":"stop"}')
                events = await rest(websocket)
            async with session(service.url) as websocket:
                await websocket.send('{"type":"flush"}')
                await receive(websocket)
        await no_streams(shipped_triton)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    of_sessions = [line for line in lines if line["event"] in ("ready", "ended")]
    assert [line["event"] for line in of_sessions].count("ended") == 2
    assert len({line["session"] for line in of_sessions}) == 2
    words = [word for word in text(events).split() if len(word) > 4]
    assert words
    assert not any(word in stream.getvalue() for word in [*words, "zanzibar", "quetzal", "token"])


@pytest.mark.parametrize(("form", "level"), [("text", "warning"), ("json", "warning"), ("json", "info")])
def test_configure(form: str, level: str) -> None:
    """Form and level apply to all of streamer; messages for the user are always shown."""
    program = (
        "import logging; from streamer.bridge.telemetry import logs\n"
        f"logs.configure({form!r}, {level!r})\n"
        "log = logs.Log('streamer.bridge'); logs.say('ready: here'); log.info('opened'); log.error('broke')\n"
        "logging.getLogger('websockets').info('secret'); logging.getLogger('websockets').error('odd')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    if form == "json":
        events = [json.loads(line)["event"] for line in lines]
    else:
        assert lines[0] == "streamer: ready: here"
        events = ["ready: here", *(line.split()[2] for line in lines[1:])]
    assert events == ["ready: here", *(["opened"] if level == "info" else []), "broke", "odd"]
