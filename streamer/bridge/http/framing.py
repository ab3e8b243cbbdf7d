"""HTTP/1.0 and 1.1 for one connection, without I/O: bytes become requests, answers become bytes. Uses h11."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final

import h11

from streamer.base.codes import ErrorCode
from streamer.bridge.http.request import Headers, HttpError

# The most bytes of a request's line and headers together, and of trailing headers after a chunked body.
LONGEST_HEAD: Final = 16 * 1024


@dataclass(frozen=True)
class Head:
    """The part of a request before its body."""

    method: str
    target: str
    version: str
    headers: Headers


class Mark(Enum):
    """A result of next() that is neither a head nor a piece of a body."""

    NEEDS_MORE = "needs more"
    END = "end"  # the request is complete
    PAUSED = "paused"  # the next request follows, or another protocol
    GONE = "gone"  # the client has ended the connection between two requests


class Framing:
    """The state of a connection between the first byte of a request and the last byte of its answer."""

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._head_only = False
        self._remaining: int | None = 0  # of the body; None if its length is unknown
        self.broken = False  # the rest of the client's bytes cannot be parsed

    # Receiving

    def feed(self, data: bytes) -> None:
        """Take bytes of the client; b"" means that it has ended its side."""
        self._h11.receive_data(data)

    def next(self) -> Head | bytes | Mark:
        """Return the next part of the input. Raise HttpError, once, if it is not valid HTTP."""
        if self.broken:
            return Mark.PAUSED
        try:
            event = self._h11.next_event()
            if isinstance(event, h11.Request):
                return self._head(event)
        except h11.RemoteProtocolError as error:
            self.broken = True
            raise _error(error) from None
        if isinstance(event, h11.Data):
            data = bytes(event.data)
            if self._remaining is not None:
                self._remaining -= len(data)
            return data
        if event is h11.NEED_DATA:
            return Mark.NEEDS_MORE
        if isinstance(event, h11.EndOfMessage):
            self._remaining = 0
            return Mark.END
        return Mark.GONE if isinstance(event, h11.ConnectionClosed) else Mark.PAUSED

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes were fed that next() has not used yet."""
        return bool(self._h11.trailing_data[0])

    @property
    def remaining(self) -> int | None:
        """The bytes of the body that have not come; None if the client did not send a length."""
        return self._remaining

    @property
    def whole(self) -> bool:
        """Whether the request has arrived completely."""
        return self._h11.their_state not in (h11.IDLE, h11.SEND_BODY, h11.ERROR)

    @property
    def at_rest(self) -> bool:
        """Whether no request is incomplete, and no bytes wait."""
        return (self.whole or self._h11.their_state is h11.IDLE) and not self.holds_bytes

    @property
    def awaits_consent(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends its body."""
        return self._h11.they_are_waiting_for_100_continue

    # Answering

    def consent(self) -> bytes:
        """Return the bytes that tell the client to send its body."""
        return self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    def head(self, status: HTTPStatus, headers: Mapping[str, str]) -> bytes:
        """Return the head of an answer. Without Content-Length, its body has chunks, or ends with the connection."""
        reason = status.phrase.encode("ascii")
        return self._send(h11.Response(status_code=status.value, headers=_fields(headers.items()), reason=reason))

    def piece(self, data: bytes) -> bytes:
        """Return the bytes for a piece of the answer's body."""
        return b"" if self._head_only else self._send(h11.Data(data=data))

    def end(self) -> bytes:
        """Return the bytes that end the answer."""
        return self._send(h11.EndOfMessage())

    @property
    def head_only(self) -> bool:
        """Whether the client asked only for the head of an answer."""
        return self._head_only

    def next_cycle(self) -> bool:
        """Prepare for the next request. Return False if the connection cannot be kept."""
        if self.broken or self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        self._head_only = False
        return True

    def switch(self, headers: Iterable[tuple[str, str]]) -> tuple[bytes, bytes]:
        """Return the answer that another protocol follows, and the bytes of that protocol that have come already."""
        answer = h11.InformationalResponse(status_code=101, headers=_fields(headers), reason=b"Switching Protocols")
        return self._send(answer), bytes(self._h11.trailing_data[0])

    def _send(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""

    def _head(self, event: h11.Request) -> Head:
        fields = [(name.decode("ascii"), value.decode("iso-8859-1")) for name, value in event.headers.raw_items()]
        length = sum(len(name) + len(value) + 4 for name, value in fields) + len(event.method) + len(event.target)
        headers, version = Headers(fields), event.http_version.decode("ascii")
        lengths, codings = headers.all("Content-Length"), headers.all("Transfer-Encoding")
        problem = None
        if length > LONGEST_HEAD:
            problem = _too_long()
        elif version not in ("1.0", "1.1"):
            problem = HttpError(
                HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
                ErrorCode.BAD_REQUEST,
                "This version of HTTP is not supported; use HTTP/1.1 or 1.0.",
            )
        elif codings and (lengths or version == "1.0"):
            # A proxy in front may read this differently, and take part of a body for a request (request smuggling).
            why = "Transfer-Encoding is not allowed together with Content-Length, or in HTTP/1.0."
            problem = HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, why)
        if problem is not None:
            self.broken = True
            raise problem
        self._head_only = event.method == b"HEAD"
        self._remaining = None if codings else int(lengths[0].partition(",")[0]) if lengths else 0
        return Head(event.method.decode("ascii"), event.target.decode("ascii"), version, headers)


def _fields(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("iso-8859-1")) for name, value in headers]


def _too_long() -> HttpError:
    return HttpError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        ErrorCode.HEAD_TOO_LARGE,
        f"The request's line and headers are longer than {LONGEST_HEAD} bytes.",
    )


def _error(error: h11.RemoteProtocolError) -> HttpError:
    if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return _too_long()
    if error.error_status_hint == HTTPStatus.NOT_IMPLEMENTED:
        return HttpError(
            HTTPStatus.NOT_IMPLEMENTED, ErrorCode.BAD_REQUEST, "The only supported transfer coding is 'chunked'."
        )
    # After a colon, h11's message may quote the client, and that may contain a key.
    why = str(error).partition(":")[0]
    return HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, f"This is not a valid HTTP/1.1 request: {why}.")
