"""A session without sockets and clocks, driven by hand."""

from __future__ import annotations

import json
from typing import Any

from streamer.base.events import ModelEvent
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.session.session import Session, State
from streamer.bridge.session.stream import Request
from streamer.wire.events import parse

STEP = 320 * BYTES_PER_S // 1000
START = '{"type":"start"}'
STOP = '{"type":"stop"}'
FLUSH = '{"type":"flush"}'
KEEPALIVE = '{"type":"keepalive"}'
LIMITS = Limits(start_s=10, idle_s=60, refresh_s=5)


class Driven:
    """A session of one stream, with the time and the audio that its model has received."""

    def __init__(self, start: str | None = START, now: float = 100.0) -> None:
        self.now = now
        self.session = Session("s1", "secret", ["default", "fast"], now, LIMITS)
        self.heard = 0
        if start is not None:
            self.session.receive_text(start, now)
            assert self.request() == Request(start=True)
            self.session.serve("streaming_asr")
            self.answer()
            assert self.said() == ["ready"]

    def text(self, text: str) -> None:
        self.session.receive_text(text, self.now)

    def audio(self, data: bytes) -> None:
        self.session.receive_audio(data, self.now)

    def request(self) -> Request | None:
        asked = self.session.requests(self.now)
        if not asked:
            return None
        [(stream, request)] = asked
        assert stream == 0
        self.heard += len(request.pcm)
        return request

    def answer(self, *events: dict[str, Any]) -> None:
        self.session.answer(0, parsed(*events, heard(self.heard)), self.now)

    def fail(self, code: str = "unavailable", *, lost: bool = False) -> None:
        self.session.fail(0, code, "it broke", self.now, lost=lost)

    def messages(self) -> list[dict[str, Any]]:
        return told(self.session)

    def said(self) -> list[str]:
        return [message["type"] for message in self.messages()]

    def exchange(self, *events: dict[str, Any]) -> Request:
        request = self.request()
        assert request is not None
        self.answer(*events)
        return request

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.session.tick(self.now)

    def assert_refused(self, code: str, close_code: int, says: str = "") -> None:
        """Check that the client gets one fatal error and the close code, and nothing else."""
        (error,) = self.messages()
        assert (error["type"], error["code"], error["fatal"]) == ("error", code, True)
        assert says in error["message"]
        close = self.session.close
        assert close is not None
        assert close.code == close_code
        assert self.session.state is State.CLOSED
        assert self.session.ended_by == code

    def assert_ends(self) -> None:
        """Check that the sequence gets exactly one END, without audio, and that the session is over then."""
        assert not self.session.over
        assert self.exchange() == Request(end=True)
        assert self.request() is None
        assert self.messages() == []
        assert self.session.over


def parsed(*events: dict[str, Any]) -> list[ModelEvent]:
    """Return events as a model sends them and the link reads them."""
    return [parse(json.dumps(event)) for event in events]


def told(session: Session) -> list[dict[str, Any]]:
    """Return the messages of the session as a client reads them."""
    return [json.loads(message.text) for message in session.take_messages()]


def heard(size: int) -> dict[str, Any]:
    """Return the model's event that it has heard this number of bytes."""
    return {"type": "heard", "sample": size // 2, "audio_ms": size * 1000 // BYTES_PER_S}


def partial(text: str, audio_ms: int) -> dict[str, Any]:
    return {"type": "partial", "segment": 0, "text": text, "stable": 0, "start_ms": 0, "audio_ms": audio_ms}


def final(text: str, segment: int = 0) -> dict[str, Any]:
    return {
        "type": "final",
        "segment": segment,
        "text": text,
        "start_ms": 0,
        "end_ms": 320,
        "audio_ms": 320,
        "confidence": 0.9,
    }
