"""Sessions that were recorded before the events had one description: every message is still the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.session.session import Session
from streamer.wire.events import parse
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
        assert now == was
        if "messages" in was:
            assert json.dumps(now) == json.dumps(was)  # even the order of fields is the same


def as_a_later_model(event: Value) -> list[Value]:
    """Return an event with fields that nobody knows, also in its parts, after an event that nobody knows."""

    def more(value: Value) -> Value:
        inner = {name: [more(part) for part in each] if is_objects(each) else each for name, each in value.items()}
        return {"mood": [1, {"a": None}], **inner, "speaker": "b"}

    return [{"type": "sigh", "at_ms": 40, "words": 7}, {"type": event["type"], **more(event)}]


def is_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_session_with_a_later_model(path: Path) -> None:
    """What a later model adds to its events changes nothing."""
    for was, now in play(path, as_a_later_model):
        assert now == was


# Fields that an earlier model may lack. `piece_ms` and `due` also say which requests the model wants.
LATER = ("words", "spoken", "alternatives", "turn", "context", "told", "speaking", "begins", "model", "instance")


def without(value: Any, names: Collection[str]) -> Any:
    """Return a value of JSON without the fields of these names, also in its parts."""
    if isinstance(value, list):
        return [without(part, names) for part in value]
    if isinstance(value, dict):
        return {name: without(part, names) for name, part in value.items() if name not in names}
    return value


def as_an_earlier_model(event: Value) -> list[Value]:
    if event["type"] in ("closed", "turn"):
        return []
    kept: Value = without(event, (*LATER, "audio_ms") if event["type"] == "heard" else LATER)
    return [kept]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_session_with_an_earlier_model(path: Path) -> None:
    """With a model that lacks events and fields, the client gets everything else."""
    for was, now in play(path, as_an_earlier_model):
        if "messages" not in was:
            assert {**now, "options": {}} == {**was, "options": {}}
            continue
        same = [message for message in was["messages"] if message["type"] != "turn"]
        given = [{**message, "n": 0} for message in without(now["messages"], LATER)]
        assert given == [{**message, "n": 0} for message in without(same, LATER)]
