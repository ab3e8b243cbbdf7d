"""The events that a client sends in OpenAI's realtime format, read and checked."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from streamer.wire.dialects.openai_realtime.mistakes import Mistake, is_unicode
from streamer.wire.errors import kind_of, quote

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
