"""The answer to a request: a status, headers, and a body, which may be produced while it is sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from streamer.bridge.http.request import Request


@dataclass
class Response:
    """An answer. An iterable body is sent piece by piece, no faster than the client reads.

    `release` is called once when the answer has ended, in any way. Until then the request's body may be read.
    """

    status: HTTPStatus
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterable[bytes] = b""
    release: Callable[[], Awaitable[None]] | None = None


class HttpError(Exception):
    """The service refuses a request or fails. A handler may raise this until its answer has begun."""

    def __init__(self, status: HTTPStatus, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        """`code` is a word for programs, `message` a sentence for people."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})

    def response(self, request: Request | None = None) -> Response:
        """Make the answer: plain text for a browser that displays it, JSON otherwise."""
        if request is not None and request.method in ("GET", "HEAD") and _is_for_browser(request):
            answer = text(self.status, self.message)
        else:
            answer = as_json(self.status, {"error": {"code": self.code, "message": self.message}})
        answer.headers.update(self.headers)
        return answer


def text(status: HTTPStatus, sentence: str) -> Response:
    """Make an answer with a line of plain text."""
    return content(status, "text/plain; charset=utf-8", sentence.encode() + b"\n")


def as_json(status: HTTPStatus, value: Any) -> Response:
    """Make an answer with a JSON document."""
    return content(status, "application/json", json.dumps(value).encode() + b"\n")


def content(status: HTTPStatus, kind: str, body: bytes) -> Response:
    """Make an answer of this type that must not be cached."""
    return Response(status, {"Content-Type": kind, "Cache-Control": "no-store"}, body)


def _is_for_browser(request: Request) -> bool:
    return any("text/html" in value.lower() for value in request.headers.all("Accept"))
