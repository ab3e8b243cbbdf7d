"""A request as its handler sees it, with a body that is received when it is read, and the answer to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from streamer.base.codes import ErrorCode


class Headers:
    """The header fields of a request. Names are not case-sensitive, and a name may occur several times."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple(fields)

    def all(self, name: str) -> list[str]:
        """Return every value of this name, in order."""
        lower = name.lower()
        return [value for field_name, value in self._fields if field_name.lower() == lower]

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of this name, or the default."""
        return next(iter(self.all(name)), default)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


@dataclass(frozen=True)
class Request:
    """One request. `path` and `query` are as sent: percent-encoding is not decoded, and `..` is not resolved."""

    method: str
    path: str
    query: str = ""
    headers: Headers = field(default_factory=Headers)
    peer: str = ""  # the address at the other end of the connection: a proxy's, if there is one
    version: str = "1.1"
    # The pieces as they arrive. Reading them raises HttpError if the body is too large, too slow, or broken.
    body: AsyncIterator[bytes] = field(default_factory=_nothing)

    async def content(self) -> bytes:
        """Read the whole body. Its path limits its size."""
        return b"".join([piece async for piece in self.body])


def split_target(target: str) -> tuple[str, str]:
    """Split the target of a request into path and query. Any text is accepted."""
    if not target.startswith("/"):
        # A proxy may send a whole URL.
        scheme, separator, rest = target.partition("://")
        if separator and scheme.lower() in ("http", "https", "ws", "wss"):
            host, slash, path = rest.partition("/")
            if "?" in host:
                path, slash = host.partition("?")[2] + slash + path, "/?"
            target = (slash or "/") + path
    path, _, query = target.partition("?")
    return path, query


# The answer to a request: a status, headers, and a body, which may be produced while it is sent.


@dataclass
class Response:
    """An answer. An iterable body is sent piece by piece, no faster than the client reads.

    `release` is called once when the answer has ended, in any way. Until then the request's body may be read.
    `lasting`: the answer lasts as long as somebody listens, so it does not count among the requests that are answered.
    """

    status: HTTPStatus
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterable[bytes] = b""
    release: Callable[[], Awaitable[None]] | None = None
    lasting: bool = False


class HttpError(Exception):
    """The service refuses a request or fails. A handler may raise this until its answer has begun."""

    def __init__(
        self, status: HTTPStatus, code: ErrorCode, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
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
