"""The events that a client sends in OpenAI's realtime format, read and checked."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from streamer.wire.dialects.openai_realtime.mistakes import Mistake, is_unicode
from streamer.wire.errors import kind_of, shown

LARGEST_APPEND: Final = 15 * 1024 * 1024  # bytes of audio, as at OpenAI
# The same in base64, and a little for the rest of the event.
LARGEST_MESSAGE: Final = LARGEST_APPEND * 4 // 3 + 64 * 1024
_LONGEST_ID: Final = 512  # as at OpenAI
# Only audio is long. A long prompt would be sent back with every update.
_LONGEST_UPDATE: Final = 64 * 1024  # characters


@dataclass(frozen=True)
class Update:
    """Changes the settings of the session."""

    session: Any
    flat: bool  # in the older shape


@dataclass(frozen=True)
class Append:
    """Adds audio."""

    audio: bytes


@dataclass(frozen=True)
class Commit:
    """Makes an item of the audio since the last one."""


@dataclass(frozen=True)
class Clear:
    """Drops the audio since the last item."""


ClientEvent = Update | Append | Commit | Clear
_NAMES: Final = (
    *("session.update", "transcription_session.update"),
    *("input_audio_buffer.append", "input_audio_buffer.commit", "input_audio_buffer.clear"),
)


def parse(text: str) -> tuple[dict[str, Any], str | None]:
    """Return an event as an object, and the name that its client gave it. Mistake if it is not an object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise Mistake("An event must be a JSON object with a 'type'.", code="invalid_json") from None
    if not isinstance(content, dict):
        raise Mistake(f"An event must be a JSON object, not {kind_of(content)}.", code="invalid_json")
    event_id = content.get("event_id")
    return content, event_id[:_LONGEST_ID] if isinstance(event_id, str) and is_unicode(event_id) else None


def read(content: dict[str, Any], length: int) -> ClientEvent:
    """Read an event of so many characters. Mistake if it is not one of those that a transcription takes."""
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
    met = shown(name) if isinstance(name, str) else kind_of(name)
    raise Mistake(f"'type' must be one of {', '.join(_NAMES)}, not {met}: this service only transcribes.", param="type")


def _audio(given: Any) -> bytes:
    if not isinstance(given, str):
        raise Mistake(f"'audio' must be a string in base64, not {kind_of(given)}.", param="audio")
    try:
        audio = base64.b64decode(given, validate=True)
    except ValueError:
        raise Mistake(f"'audio' is not valid base64: {shown(given)}.", param="audio") from None
    if len(audio) > LARGEST_APPEND:
        raise Mistake("'audio' must have at most 15 MiB; send it in several events.", param="audio")
    return audio
