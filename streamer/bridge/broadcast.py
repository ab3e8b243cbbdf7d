"""Gives the words of one session to many listeners. Nothing of it reaches the recogniser, or holds the session up.

Each piece is written once, for all listeners. A listener that does not read is dropped when too many pieces wait for
it. One that comes later gets the finals since the session was shared, as far as they are kept.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Partial, content
from streamer.base.events import Final as FinalEvent
from streamer.base.json_types import JsonObject
from streamer.base.speakers import parts_of
from streamer.base.subtitles import GrowingSubtitles
from streamer.base.text import json_text
from streamer.bridge.http.channel import NOT_READ
from streamer.bridge.http.request import HttpError
from streamer.bridge.session.messages import Numbered
from streamer.bridge.workers.others import mark

# Pieces that may wait for a listener, besides what its connection holds.
MOST_WAITING: Final = 64
# The bytes of older finals that are kept in each form for listeners that come later.
MOST_KEPT: Final = 128 * 1024
# A proxy ends a connection over which nothing comes, often after a minute.
KEEPALIVE_S: Final = 15.0
_SHOWN: Final = ("text", "stable", "start_ms", "end_ms", "channel", "speaker")
_SHOWN_OF_PART: Final = ("text", "speaker")


class Form(Enum):
    """What a listener gets."""

    EVENTS = "text/event-stream"  # partials and finals, for a page
    CUES = "text/vtt; charset=utf-8"  # subtitles that grow, for a player


class Broadcast:
    """The words of a session that is shared."""

    def __init__(
        self,
        forget: Callable[[Broadcast], None],
        on_drop: Callable[[str], None],
        names: Callable[[], Sequence[str]] = tuple,
        worker: int = 0,
    ) -> None:
        """`forget` is called when it ends, `on_drop` with the reason when a listener is dropped.

        `names` gives the present names of the speakers. `worker`: the number of the worker that has the session, if
        there are several.
        """
        # Nobody can guess it, so the link is all that a listener needs.
        self.name = mark(worker, secrets.token_urlsafe(24))
        self._forget = forget
        self._on_drop = on_drop
        self._names = names
        self._listeners: set[Listener] = set()
        self._subtitles = GrowingSubtitles("vtt")
        self._kept = {Form.EVENTS: _Kept(), Form.CUES: _Kept()}
        self._partials: dict[int | None, bytes] = {}  # the last one of each channel
        self._ended = False

    def __len__(self) -> int:
        """Return the number of listeners."""
        return len(self._listeners)

    def note(self, numbered: Numbered) -> None:
        """Pass on a message that the client of the session was sent."""
        message, names = numbered.message, self._names()
        self._subtitles.speaker_names = names
        if isinstance(message, FinalEvent):
            self._partials.pop(message.channel, None)
            self._tell(Form.EVENTS, _event(numbered.n, message, names), keep=True)
            self._tell_cues(self._subtitles.add({"type": "final", "words": None, **content(message)}))
        elif isinstance(message, Partial):
            self._partials[message.channel] = event = _event(numbered.n, message, names)
            self._tell(Form.EVENTS, event)
            self._tell_cues(self._subtitles.advance(message.audio_ms, message.start_ms if message.text else None))
        elif isinstance(message, Acknowledgement):
            self._tell_cues(self._subtitles.advance(message.audio_ms))

    def listen(self, form: Form) -> Listener:
        """Return a new listener. It counts until it leaves."""
        first = list(self._kept[form].pieces)
        if form is Form.CUES:
            first.insert(0, self._subtitles.begin().encode())
        else:
            first += self._partials.values()
        listener = Listener(form, first, self._listeners.discard)
        self._listeners.add(listener)
        if self._ended:
            listener.end()
        return listener

    def close(self) -> None:
        """End it, for all listeners, because the session ends or is not shared any more."""
        if self._ended:
            return
        self._ended = True
        self._tell_cues(self._subtitles.rest())
        self._tell(Form.EVENTS, b"event: end\ndata: {}\n\n")
        for listener in self._listeners:
            listener.end()
        self._forget(self)

    def _tell_cues(self, text: str) -> None:
        if text:
            self._tell(Form.CUES, text.encode(), keep=True)

    def _tell(self, form: Form, piece: bytes, *, keep: bool = False) -> None:
        if keep:
            self._kept[form].add(piece)
        for listener in [each for each in self._listeners if each.form is form]:
            if not listener.take(piece):
                self._listeners.discard(listener)
                self._on_drop(NOT_READ)


class Listener:
    """One connection that reads along."""

    def __init__(self, form: Form, first: list[bytes], leave: Callable[[Listener], None]) -> None:
        """`first`: what it gets at once. `leave` is called when it leaves."""
        self.form = form
        self._waiting = deque([b"".join(first)])
        self._leave = leave
        self._news = asyncio.Event()
        self._ended = False
        self._dropped = False

    def take(self, piece: bytes) -> bool:
        """Take a piece. Return False if too many wait, and it is dropped."""
        if len(self._waiting) >= MOST_WAITING:
            self._dropped = True
        else:
            self._waiting.append(piece)
        self._news.set()
        return not self._dropped

    def end(self) -> None:
        """Let it end after the pieces that wait."""
        self._ended = True
        self._news.set()

    async def leave(self) -> None:
        """Stop counting it. This may be called again."""
        self._leave(self)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces as they come, and something without a meaning when none comes for a while."""
        while not self._dropped:
            self._news.clear()
            if self._waiting:
                yield self._waiting.popleft()
            elif self._ended:
                return
            else:
                try:
                    await asyncio.wait_for(self._news.wait(), KEEPALIVE_S)
                except asyncio.TimeoutError:
                    yield b"\nNOTE\n" if self.form is Form.CUES else b":\n\n"
        # The answer is cut off, so that the listener knows that something is missing.
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.TOO_SLOW, "The listener does not read.")


class _Kept:
    """The last pieces, up to a size."""

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._size += len(piece)
        while self._size > MOST_KEPT:
            self._size -= len(self.pieces.popleft())


def _event(number: int, message: FinalEvent | Partial, names: Sequence[str]) -> bytes:
    """Return a server-sent event: the text with its times, and nothing that the client alone should have.

    `names`: those of the speakers.
    """
    result = content(message)
    values: JsonObject = {name: value for name, value in result.items() if name in _SHOWN}
    if len(parts := parts_of(result)) > 1:  # several speakers say it
        values["parts"] = [{name: part[name] for name in _SHOWN_OF_PART} for part in parts]
    if "speaker" in values and any(names):
        values["speaker_names"] = names
    return f"id: {number}\nevent: {message.type}\ndata: {json_text(values)}\n\n".encode()
