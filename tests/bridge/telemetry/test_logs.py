"""The log: what its lines contain, readers that are late, and failures, which are visible but cannot fill it."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from streamer.base.text import printable_lines
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Failures, Json, Log, LogWriter, Text
from streamer.bridge.triton.server import TritonServer
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


PAGE = 4096
PATIENCE_S = 60.0


@dataclass
class Pipe:
    """The smallest possible pipe."""

    readable: int
    writable: int

    def fill(self) -> None:
        """Write until nothing more can be written without waiting."""
        os.set_blocking(self.writable, False)
        while True:
            try:
                os.write(self.writable, b"\n" * PAGE)
            except BlockingIOError:
                break
        os.set_blocking(self.writable, True)

    def read_until(self, words: str) -> list[str]:
        """Return the lines up to one with these words."""
        told = ""
        while words not in told or not told.endswith("\n"):
            told += os.read(self.readable, PAGE).decode()
        return [line for line in told.splitlines() if line]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(*os.pipe())
    fcntl.fcntl(made.writable, fcntl.F_SETPIPE_SZ, PAGE)
    yield made
    for descriptor in (made.readable, made.writable):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test has closed it


def writer(pipe: Pipe, most: int = 1 << 20) -> LogWriter:
    made = LogWriter(pipe.writable, most)
    made.setFormatter(Text())
    return made


def write_line(writer: LogWriter, event: str) -> None:
    writer.handle(logging.LogRecord("streamer.tested", logging.INFO, "", 0, event, (), None))


@pytest.mark.parametrize("formatter", [Text(), Json()])
def test_a_line_cannot_steer_a_terminal(pipe: Pipe, formatter: logging.Formatter) -> None:
    """Names and reasons of strangers are escaped in fields, and without control characters in sentences and errors."""
    hostile, tested = "a\x1b]52;c;Yg==\x07\x9b\u202eb", writer(pipe)
    tested.setFormatter(formatter)
    record = logging.makeLogRecord({"name": "streamer.tested", "msg": hostile, "fields": {"detail": hostile}})
    try:
        raise ValueError(hostile)
    except ValueError:
        record.exc_info = sys.exc_info()
    tested.handle(record)
    tested.handle(logging.makeLogRecord({"name": "streamer.sentences", "msg": f"{hostile} at the end"}))
    written = "\n".join(pipe.read_until("at the end"))
    assert printable_lines(written) == written
    assert r"\u001b]52;c;Yg==\u0007\u009b\u202eb" in written


def test_lines_come_in_order(pipe: Pipe) -> None:
    """All lines arrive, and flush() waits for the last one."""
    with_lines = writer(pipe)
    for number in range(20):
        write_line(with_lines, f"event {number}.")
    with_lines.flush()
    lines = pipe.read_until("event 19.")
    assert [line.rpartition("info ")[2] for line in lines] == [f"event {number}." for number in range(20)]
    assert with_lines.dropped == 0


def test_who_logs_does_not_wait(pipe: Pipe) -> None:
    """Unread lines are kept, and arrive when the pipe is read."""
    pipe.fill()
    stuck = writer(pipe)
    for number in range(1000):
        write_line(stuck, f"event {number}.")
    assert stuck.dropped == 0
    lines = pipe.read_until("event 999.")
    assert len(lines) == 1000


def test_more_than_is_kept(pipe: Pipe) -> None:
    """Lines above the bound are counted, and a line says where they are missing."""
    pipe.fill()
    stuck = writer(pipe, 500)
    for number in range(100):
        write_line(stuck, f"event {number:03}.")
    kept = 100 - stuck.dropped
    assert 0 < kept < 20
    lines = pipe.read_until("dropped")
    assert [line.rpartition("info ")[2] for line in lines[:-1]] == [f"event {number:03}." for number in range(kept)]
    assert lines[-1].endswith(f"warning log lines dropped: they could not be written in time lines={100 - kept}")
    write_line(stuck, "one more.")
    assert pipe.read_until("one more.")[0].endswith("info one more.")


def test_nobody_is_there_any_more(pipe: Pipe) -> None:
    """If the reader is gone, every line is counted as dropped, once, and nothing else happens."""
    os.close(pipe.readable)
    lonely = writer(pipe)
    for number in range(3):
        write_line(lonely, f"event {number}.")
        until = time.monotonic() + PATIENCE_S
        while lonely.dropped <= number:
            assert time.monotonic() < until
            time.sleep(0.01)
    lonely.flush()
    assert lonely.dropped == 3


def test_a_descriptor_that_does_not_wait(pipe: Pipe) -> None:
    """A shared descriptor may be non-blocking; no line is lost because of that."""
    os.set_blocking(pipe.writable, False)
    shared = writer(pipe)
    for number in range(300):
        write_line(shared, f"event {number}.")
    assert len(pipe.read_until("event 299.")) == 300
    assert shared.dropped == 0


def fail(way: str) -> Exception:
    try:
        if way == "here":
            raise ValueError("one")
        raise ValueError("two")
    except ValueError as error:
        return error


@pytest.mark.fails_inside
def test_each_is_counted_and_one_of_a_kind_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is logged with its traceback, and again after a minute with the number of repetitions."""
    counted: list[None] = []
    reported = Failures(lambda: counted.append(None))
    with caplog.at_level(logging.ERROR, logger="streamer"):
        for way in ("here", "there", "here", "here"):
            reported.report("it failed", fail(way), path="/")
        assert [record.getMessage() for record in caplog.records] == ["it failed"] * 2
        assert "ValueError: one" in caplog.text
        assert 'raise ValueError("two")' in caplog.text
        monkeypatch.setattr(logs, "AGAIN_S", 0.0)
        reported.report("it failed", fail("here"))
    assert len(counted) == 5
    assert vars(caplog.records[-1])["fields"] == {"unsaid": 2}


@pytest.mark.fails_inside
def test_an_error_that_was_never_raised() -> None:
    """An error that was never raised has no traceback, but counts."""
    counted: list[None] = []
    Failures(lambda: counted.append(None)).report("it failed", ValueError("made"))
    assert len(counted) == 1
