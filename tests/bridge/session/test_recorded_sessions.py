"""Sessions that were recorded before the events had one description: every message is still the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.session.session import Session
from streamer.wire.model_events import parse
from tests.project import ROOT

FILES = sorted((ROOT / "tests" / "wire" / "recorded_sessions").glob("*.json"))
Value = dict[str, Any]
Change = Callable[[Value], list[Value]]


def recorded(path: Path) -> Iterator[Value]:
    """Return the steps of a file of `scripts/data/record_sessions.py`."""
    yield from json.loads(path.read_text(encoding="utf-8"))["steps"]


def as_recorded(event: Value) -> list[Value]:
    return [event]


def play(path: Path, change: Change = as_recorded) -> Iterator[tuple[Value, Value]]:
    """Play a session back. Return what it must give, and what it gives now. `change`: the events in place of each."""
    session = Session("7", "secret", ["default", "other"], 100.0)
    requests: dict[int, Value] = {}
    for step in recorded(path):
        deed, now = step["do"], step["now"]
        if deed == "text":
            session.receive_text(json.dumps(step["text"]), now)
        elif deed == "audio":
            session.receive_audio(bytes(step["bytes"]), now)
        elif deed == "request":
            if step["stream"] not in requests:
                requests |= {stream: asked(request) for stream, request in session.requests(now)}
            yield (
                {name: step[name] for name in ("bytes", "start", "flush", "end", "options")},
                requests.pop(step["stream"]),
            )
        elif deed == "answer":
            events = [changed for event in step["events"] for changed in change(event)]
            read = [parse(json.dumps(event)) for event in events]
            session.answer(step["stream"], read, now, leaving=step["leaving"])
        elif deed == "fail":
            session.fail(step["stream"], step["code"], step["message"], now, lost=step["lost"])
        elif deed == "resume":
            assert session.resume(step["after"], now)
        elif deed == "serve":
            session.serve(step["model"])
        elif deed == "told":
            given = [json.loads(message.text) for message in session.take_messages()]
            yield {"messages": step["messages"]}, {"messages": given}
        elif deed == "close":
            assert session.close is not None
            close = {"code": int(session.close.code), "reason": session.close.reason, "ended_by": session.ended_by}
            yield {name: step[name] for name in close}, close
        else:
            getattr(session, deed)(now)
    assert session.over


def asked(request: Any) -> Value:
    """Return a request as a file has it."""
    flags = {"start": request.start, "flush": request.flush, "end": request.end}
    return {"bytes": len(request.pcm), **flags, "options": json.loads(json.dumps(request.options))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_session(path: Path) -> None:
    """The same events of the model give the same messages, requests and close, in order and with no field less."""
    pairs = list(play(path))
    assert len(pairs) > 5
    for was, now in pairs:
        # Also the order of fields is the same.
        assert json.dumps(now) == json.dumps(was)
