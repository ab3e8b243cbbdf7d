"""The frames of one websocket, without I/O: bytes become whole messages, messages become bytes.

The library `websockets` checks the handshake, and reads and writes frames. Compression is not used. Only whole frames
of audio, of which each session sends many, are read here (docs/decisions/cheap-bridge.md).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from http import HTTPStatus
from typing import Final

from websockets.datastructures import Headers as LibraryHeaders
from websockets.exceptions import InvalidHeader, PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as LibraryRequest
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from streamer.base.codes import ErrorCode, QuietEnding, Reason
from streamer.bridge.http.request import HttpError, Request

try:
    from websockets.speedups import apply_mask
except ImportError:  # the library has no compiled part on this system
    from websockets.utils import apply_mask

# The header fields that the library sees. It does not check others, and cannot quote them: they may contain a key.
_HANDSHAKE_FIELDS: Final = (
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
)
# The words for faults of a client, by the code of the close that follows.
_FAULTS: Final[dict[int, Reason]] = {1007: QuietEnding.NOT_UTF8, 1009: ErrorCode.TOO_LARGE}
# A close with code 1000, or without a code (which is 1005), is a goodbye. Any other end is a loss.
_GOODBYES: Final = (1000, 1005)
_NOT_UTF8: Final = 1007
# The beginning of a frame that is a whole binary message, and the bytes of a client's mask.
_BINARY, _MASKED, _MASK_BYTES = 0x82, 0x80, 4
_SHORT: Final = 125  # bytes: a longer frame has its length in two or eight further bytes
# With these codes the library has failed, or the connection is lost, so nothing more can be sent.
_NOTHING_TO_SEND: Final = (1006, 1011)
_CLIENT_ERRORS: Final = (ProtocolError, EOFError, UnicodeDecodeError, PayloadTooBig)
# Unexpected errors of the library are in `Messages.failure`; the owner of the connection logs them.
_silent = logging.getLogger("streamer.bridge.http.library")
_silent.setLevel(logging.CRITICAL + 1)


class Handshake:
    """The answer to a request for a websocket."""

    def __init__(self, request: Request, subprotocols: Sequence[str]) -> None:
        """Choose the first of `subprotocols` that the client offers. Raise HttpError if the request is not valid."""

        def select(_: ServerProtocol, offers: Sequence[Subprotocol]) -> Subprotocol | None:
            return next((Subprotocol(name) for name in subprotocols if name in offers), None)

        if request.method != "GET" or request.version != "1.1":
            raise HttpError(
                HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, "A websocket needs a GET request with HTTP/1.1."
            )
        library = ServerProtocol(select_subprotocol=select, logger=_silent)
        target = f"{request.path}?{request.query}" if request.query else request.path
        fields = [(name, value) for name, value in request.headers if name.lower() in _HANDSHAKE_FIELDS]
        try:
            library_request = LibraryRequest(target, LibraryHeaders(fields))
        except InvalidHeader as error:
            why = f"The value of {error.name} is not valid."
            raise HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_HANDSHAKE, why) from None
        response = library.accept(library_request)
        status, sentence = HTTPStatus(response.status_code), bytes(response.body).decode()
        if status is HTTPStatus.UPGRADE_REQUIRED:
            raise upgrade_required()
        if status is HTTPStatus.INTERNAL_SERVER_ERROR and library.handshake_exc is not None:
            raise library.handshake_exc
        if status is not HTTPStatus.SWITCHING_PROTOCOLS:
            raise HttpError(status, ErrorCode.BAD_HANDSHAKE, " ".join(sentence.split()))
        self.subprotocol = library.subprotocol
        self.headers = [(name, value) for name, value in response.headers.raw_items() if name.lower() != "date"]


def check_handshake(request: Request) -> None:
    """Raise HttpError if the request for a websocket is not valid."""
    Handshake(request, ())


class _Protocol(ServerProtocol):
    """A protocol that can still send after invalid input. It closes only when end() is called."""

    fault: tuple[int, str] | None = None

    def fail(self, code: int, reason: str = "") -> None:
        """Ignore all input from now on, and note the code and reason."""
        if self.state is not State.OPEN or code in _NOTHING_TO_SEND:
            super().fail(code, reason)
        else:
            self.fault = int(code), reason
            self.parser = self._ignore()
            next(self.parser)

    def end(self, code: int, reason: str) -> None:
        """Send a close. After a fault, the client's answer is not awaited."""
        if self.fault is None:
            self.send_close(code, reason)
        else:
            super().fail(code, reason)

    def _ignore(self) -> Generator[None]:
        while True:
            self.reader.discard()
            yield


class Messages:
    """Both directions of a websocket after its handshake."""

    def __init__(self, largest: int) -> None:
        """`largest`: the most bytes of a message. A larger one is a fault."""
        self._library = _Protocol(state=State.OPEN, max_size=largest, logger=_silent)
        self._largest = largest
        self._forgiven = False
        self._parts = bytearray()  # of a message that comes in several frames
        self._divided = False  # such a message is not complete
        self._opcode: Opcode | None = None
        self._unfinished = 0  # bytes of a frame that the library has got so far; 0 between two frames

    @property
    def open(self) -> bool:
        """Whether messages can be sent."""
        return self._library.state is State.OPEN

    @property
    def at_rest(self) -> bool:
        """Whether messages can be exchanged, and none is incomplete."""
        return self.open and not (self._unfinished or self._divided or self.deaf)

    @property
    def deaf(self) -> bool:
        """Whether input is discarded, because the client has closed or sent something invalid."""
        return self._library.eof_sent or self._library.fault is not None

    @property
    def over(self) -> bool:
        """Whether no more messages can come. A fault that was forgiven does not count."""
        return self._library.eof_sent or (self._library.fault is not None and not self._forgiven)

    @property
    def verdict(self) -> tuple[int, str] | None:
        """Code and reason of the close for a fault, if there was one. Until that close, messages can still be sent."""
        return None if self._forgiven else self._library.fault

    @property
    def fault(self) -> Reason | None:
        """The word for what the client did wrong; None if there is none."""
        return None if self.verdict is None else _FAULTS.get(self.verdict[0])

    def forgive(self) -> None:
        """Overlook a fault of a client whose further input does not matter."""
        self._forgiven = True

    @property
    def agreed(self) -> bool:
        """Whether the client sent a close, or answered ours."""
        return self._library.close_rcvd is not None

    @property
    def goodbye(self) -> bool:
        """Whether the client closed the websocket on purpose."""
        received = self._library.close_rcvd
        return received is not None and received.code in _GOODBYES

    @property
    def failure(self) -> Exception | None:
        """An unexpected error of the library, if there was one."""
        error = self._library.parser_exc
        return None if error is None or isinstance(error, _CLIENT_ERRORS) else error

    def feed(self, data: bytes) -> list[str | bytes]:
        """Take bytes of the client, and return the complete messages. Call output() after this."""
        if not (self._unfinished or self._divided or self.deaf):
            audio = whole_frames(data, self._largest)
            if audio is not None:
                return audio
        self._library.receive_data(data)
        self._unfinished += len(data)
        messages: list[str | bytes] = []
        for event in self._library.events_received():
            if not isinstance(event, Frame):
                continue
            # If a client writes the length of a frame with more bytes than it needs, the rest is left to the library.
            self._unfinished -= _size_of(event)
            if (message := self._assemble(event)) is not None:
                try:
                    messages.append(message.decode() if self._opcode is Opcode.TEXT else message)
                except UnicodeDecodeError:
                    if not self.deaf:
                        self._library.fail(_NOT_UTF8, "not UTF-8")
                    break
        return messages

    def text(self, text: str) -> None:
        """Send a text frame."""
        self._library.send_text(text.encode())

    def binary(self, data: bytes) -> None:
        """Send a binary frame."""
        self._library.send_binary(data)

    def ping(self) -> None:
        """Send a ping."""
        self._library.send_ping(b"")

    def close(self, code: int, reason: str) -> None:
        """Send a close."""
        self._library.end(code, reason)

    def output(self) -> tuple[bytes, bool]:
        """Return the bytes to write, also for pongs and closes, and whether they are the last ones."""
        pieces = self._library.data_to_send()
        return b"".join(pieces), b"" in pieces

    def _assemble(self, frame: Frame) -> bytes | None:
        """Return the message that this frame completes; None if the frame completes none."""
        data = frame.data if isinstance(frame.data, bytes) else bytes(frame.data)
        if frame.opcode is Opcode.CONT:
            self._parts += data
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._opcode = frame.opcode
            self._divided = not frame.fin
            if frame.fin:
                return data
            self._parts += data
        else:
            return None
        if not frame.fin:
            return None
        data, self._parts = bytes(self._parts), bytearray()
        self._divided = False
        return data


def whole_frames(data: bytes, largest: int) -> list[str | bytes] | None:
    """Return the messages of binary frames, if there is nothing else in these bytes; None otherwise."""
    messages: list[str | bytes] = []
    at, end = 0, len(data)
    while at < end:
        if end - at < 2 + _MASK_BYTES or data[at] != _BINARY or data[at + 1] < _MASKED:
            return None
        size, start = data[at + 1] - _MASKED, at + 2
        if size > _SHORT:
            start += 2 if size == _SHORT + 1 else 8
            size = int.from_bytes(data[at + 2 : start], "big")
        begin = start + _MASK_BYTES
        at = begin + size
        if at > end or size > largest:
            return None
        messages.append(apply_mask(data[begin:at], data[start:begin]))
    return messages


def _size_of(frame: Frame) -> int:
    """Return the bytes that a frame of a client takes."""
    size = len(frame.data)
    return 2 + (0 if size <= _SHORT else 2 if size < 1 << 16 else 8) + _MASK_BYTES + size


def upgrade_required() -> HttpError:
    """Make the answer to a plain request at the path of a websocket."""
    sentence = "This is a websocket: open it with a WebSocket client, not with a browser's address bar."
    return HttpError(HTTPStatus.UPGRADE_REQUIRED, ErrorCode.UPGRADE_REQUIRED, sentence, {"Upgrade": "websocket"})
