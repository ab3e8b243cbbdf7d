"""OpenAI's realtime transcription as a dialect: one websocket, and behind it one native session after another.

A native session begins with the first audio, because the settings come before it. It ends when a setting changes that
it was started with (between two items if possible), or when no audio comes for a while. The next audio begins another
native session. The client does not notice it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Error, ServerMessage
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.text import is_unicode
from streamer.wire.dialects.dialect import FLUSH, STOP, Dialect, Opening, Reply, Step, start
from streamer.wire.dialects.openai_settings import Mistake, Settings, update_settings
from streamer.wire.dialects.openai_turns import ServerEvents, Turns
from streamer.wire.dialects.openai_upload import error_of
from streamer.wire.errors import CloseCode, bad, kind_of, quote
from streamer.wire.native import encode
from streamer.wire.upload import Problem

# The events that a client sends in OpenAI's realtime format, read and checked.

LARGEST_APPEND: Final = 15 * 1024 * 1024  # bytes of audio, as at OpenAI
# The size of this audio in base64, and room for the rest of the event.
LARGEST_MESSAGE: Final = LARGEST_APPEND * 4 // 3 + 64 * 1024
_LONGEST_ID: Final = 512  # as at OpenAI
# Only audio may be long. The service sends the settings back after every update, with a long prompt too.
_LONGEST_UPDATE: Final = 64 * 1024  # characters


@dataclass(frozen=True)
class Update:
    """Changes the settings of the session."""

    session: Any
    flat: bool  # the update has the older shape


@dataclass(frozen=True)
class Append:
    """Adds audio."""

    audio: bytes


@dataclass(frozen=True)
class Commit:
    """Makes an item of the audio since the last item."""


@dataclass(frozen=True)
class Clear:
    """Drops the audio since the last item."""


ClientEvent = Update | Append | Commit | Clear
_NAMES: Final = (
    "session.update",
    "transcription_session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
)


def parse(text: str) -> tuple[dict[str, Any], str | None]:
    """Return an event as an object, and the `event_id` of the client. Raise Mistake if it is not an object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise Mistake("An event must be a JSON object with a 'type'.", code="invalid_json") from None
    if not isinstance(content, dict):
        raise Mistake(f"An event must be a JSON object, not {kind_of(content)}.", code="invalid_json")
    event_id = content.get("event_id")
    return content, event_id[:_LONGEST_ID] if isinstance(event_id, str) and is_unicode(event_id) else None


def read(content: dict[str, Any], length: int) -> ClientEvent:
    """Read an event. `length`: its characters. Raise Mistake if a transcription takes no such event."""
    name = content.get("type")
    if name == "input_audio_buffer.append":
        return Append(_audio(content.get("audio")))
    if name == "input_audio_buffer.commit":
        return Commit()
    if name == "input_audio_buffer.clear":
        return Clear()
    if name in ("session.update", "transcription_session.update"):
        if length > _LONGEST_UPDATE:
            raise Mistake(f"An update must have at most {_LONGEST_UPDATE} characters.", param="session")
        return Update(content.get("session"), flat=name == "transcription_session.update")
    actual = quote(name) if isinstance(name, str) else kind_of(name)
    raise Mistake(
        f"'type' must be one of {', '.join(_NAMES)}, not {actual}: this service only transcribes.", param="type"
    )


def _audio(text: Any) -> bytes:
    if not isinstance(text, str):
        raise Mistake(f"'audio' must be a string in base64, not {kind_of(text)}.", param="audio")
    try:
        audio = base64.b64decode(text, validate=True)
    except ValueError:
        raise Mistake(f"'audio' is not valid base64: {quote(text)}.", param="audio") from None
    if len(audio) > LARGEST_APPEND:
        raise Mistake("'audio' must have at most 15 MiB; send it in several events.", param="audio")
    return audio


PATH: Final = "/v1/realtime"
# The paths for keys that are valid for a short time: the present one, and the older ones, whose sessions are flat.
SECRETS: Final = f"{PATH}/client_secrets"
FLAT_SECRETS: Final = (f"{PATH}/transcription_sessions", f"{PATH}/sessions")
SUBPROTOCOL: Final = "realtime"
# The settings of `transcription` that the query may have, as clients of speaches send them.
_QUERY_NAMES: Final = {"model": "transcription_model", "language": "language"}
# From this status on, the service is at fault, and another connection may help.
_FIRST_SERVICE_FAULT: Final = 500
_OLD_HEADER: Final = "realtime=v1"
_OLD_SUBPROTOCOL: Final = "openai-beta.realtime-v1"


class OpenAIRealtime(Dialect):
    """One websocket of a client of OpenAI."""

    protocol = "openai_realtime"
    path = PATH
    subprotocols = (SUBPROTOCOL,)
    largest_message = LARGEST_MESSAGE
    successive = True

    def __init__(self, opening: Opening) -> None:
        offered = opening.headers.get("sec-websocket-protocol", "")
        old = opening.headers.get("openai-beta", "").strip() == _OLD_HEADER or _OLD_SUBPROTOCOL in offered
        name = opening.request_id.replace("-", "")[:20]
        query = dict(opening.query)
        requested = query.get("model") or query.get("deployment", "")  # the latter from Azure's clients
        self._models = opening.models
        self._model = requested if requested in opening.models else DEFAULT_MODEL
        self._session = f"sess_{name}"
        self._settings = self._first_settings(Settings(transcription={"model": requested or self._model}), opening)
        self._events = ServerEvents(name, flat=old)
        self._turns = Turns(self._events, name)
        self._turns.logprobs = self._settings.logprobs
        self._start = ""  # the `start` of the native session; empty while there is none
        self._outdated = False  # the settings have changed, but the native session may still finish its item
        self._base_ms = 0  # where the audio in the present format begins
        self._bytes = 0  # of audio in the present format
        self._rest = b""  # an incomplete sample

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        return status, encode({"error": error_of(code, message, status)})

    # What the client sends

    def greet(self) -> Iterator[Step]:
        """Send the settings at once: clients wait for them before they send anything."""
        yield self._session_event("created", flat=self._events.flat)

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take an event of the client. A mistake in it is answered with an error, and changes nothing."""
        event_id = None
        try:
            if isinstance(message, bytes):
                raise Mistake("Audio must be sent as base64 in 'input_audio_buffer.append', not in binary messages.")
            content, event_id = parse(message)
            event = read(content, len(message))
            if isinstance(event, Update):
                yield from self._update(event)
            elif isinstance(event, Append):
                yield from self._append(event.audio)
            elif isinstance(event, Commit):
                yield from _replies(*self._turns.commit(self._now_ms, event_id, running=bool(self._start)))
            elif isinstance(event, Clear):
                yield from _replies(*self._turns.clear(self._now_ms, running=bool(self._start)))
        except Mistake as mistake:
            yield Reply(self._events.error(mistake.content(event_id)))

    def rest(self) -> Iterator[Step]:
        """End the native session. The next audio begins another one."""
        if self._start:
            self._start, self._outdated = "", False
            yield STOP

    # What the client gets

    def tell(self, message: ServerMessage) -> list[str]:
        """Return the events for a message of the session."""
        if not isinstance(message, Error):
            return self._turns.take(message)
        if not message.fatal:
            return []
        return self.fail(message.code, message.message)

    def fail(self, code: ErrorCode, message: str) -> list[str]:
        """Return the events before the service closes the websocket.

        No error is among them if another connection may help: some clients connect again after a close, but give up
        after an error.
        """
        status = Problem(code, message).status
        error = error_of(code, message, status)
        events = self._turns.fail(error)
        return events if status >= _FIRST_SERVICE_FAULT else [*events, self._events.error({**error, "event_id": None})]

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason. These clients do not know the codes of the native protocol."""
        return (code if code < CloseCode.BAD_MESSAGE else CloseCode.REFUSED), reason

    # Inside

    def _first_settings(self, settings: Settings, opening: Opening) -> Settings:
        """Return the settings at the beginning. A key for a short time may bring its own, and then the query."""
        query = {name: value for name, value in opening.query if value}
        transcription = {name: query[option] for name, option in _QUERY_NAMES.items() if option in query}
        updates = [json.loads(opening.settings)] if opening.settings else []
        updates += [{"audio": {"input": {"transcription": transcription}}}] if transcription else []
        try:
            for update in updates:
                settings = update_settings(settings, update, self._models, self._model)
        except Mistake as mistake:  # in the query; or the models have changed since the key was made
            raise bad(ErrorCode.BAD_OPTION, mistake.message) from None
        return settings

    @property
    def _now_ms(self) -> int:
        """The length of the audio that the client has appended."""
        format = self._settings.format
        return self._base_ms + self._bytes * 1000 // (format.rate * format.sample_bytes)

    def _session_event(self, what: str, *, flat: bool) -> Reply:
        if flat:
            session = self._settings.flat_view(self._session)
            return Reply(self._events.write(f"transcription_session.{what}", session=session))
        return Reply(self._events.write(f"session.{what}", session=self._settings.view(self._session)))

    def _update(self, update: Update) -> Iterator[Step]:
        former = self._settings
        settings = update_settings(former, update.session, self._models, self._model)
        switched = (settings.turn_detection is None) != (former.turn_detection is None)
        urgent = settings.format != former.format or switched
        if settings.format != former.format:
            self._base_ms, self._bytes, self._rest = self._now_ms, 0, b""
        self._settings = settings
        self._turns.logprobs = settings.logprobs
        self._events.flat = self._events.flat or update.flat
        yield self._session_event("updated", flat=update.flat)
        self._outdated = bool(self._start) and self._start != self._next_start()
        if self._start and not urgent:
            self._turns.adjust(settings.turn_detection)
        if self._outdated and (urgent or not self._turns.busy):
            yield from self.rest()

    def _append(self, audio: bytes) -> Iterator[Step]:
        audio = self._rest + audio
        whole = len(audio) - len(audio) % self._settings.format.sample_bytes
        audio, self._rest = audio[:whole], audio[whole:]
        if not audio:
            return
        if self._outdated and not self._turns.busy:
            yield from self.rest()
        if not self._start:
            self._start = self._next_start()
            self._turns.begin(self._settings.turn_detection, self._now_ms)
            yield self._start
        self._bytes += len(audio)
        yield audio

    def _next_start(self) -> str:
        """Return the `start` of a native session with the present settings."""
        return start(**self._settings.start(self._models, self._model))


def _replies(events: Iterable[str], flush: bool) -> Iterator[Step]:
    """Yield the events that answer a commit or a clear now, and a flush if its answer must bring the rest."""
    yield from map(Reply, events)
    if flush:
        yield FLUSH
