"""The events that a client receives in OpenAI's realtime format. Each event has its own `event_id`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamer.wire.native import encode

_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"


class ServerEvents:
    """A writer of the events of one session, in the newer shape or the older one."""

    def __init__(self, session: str, *, flat: bool) -> None:
        """`flat`: the client uses the older shape."""
        self.flat = flat
        self._session = session
        self._number = 0

    def write(self, type: str, **content: Any) -> str:
        """Return an event of this type."""
        self._number += 1
        return encode({"type": type, "event_id": f"event_{self._session}_{self._number}", **content})

    def error(self, content: Mapping[str, Any]) -> str:
        """Return an error event. The session stays open unless the connection is closed."""
        return self.write("error", error=content)

    def speech_started(self, item: str, at_ms: int) -> str:
        """Return the event for: somebody began to speak."""
        return self.write("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=item)

    def speech_stopped(self, item: str, at_ms: int) -> str:
        """Return the event for: the turn is over."""
        return self.write("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id=item)

    def committed(self, item: str, previous: str | None) -> list[str]:
        """Return the events for: the audio of an item is complete, and the item exists."""
        events = [self.write("input_audio_buffer.committed", previous_item_id=previous, item_id=item)]
        for name in ("created",) if self.flat else ("added", "done"):
            event = self.write(f"conversation.item.{name}", previous_item_id=previous, item=_item(item))
            events.append(event)
        return events

    def cleared(self) -> str:
        """Return the event for: the audio since the last item was dropped."""
        return self.write("input_audio_buffer.cleared")

    def delta(self, item: str, text: str) -> str:
        """Return the event for more text of an item, which will not change."""
        return self.write(f"{_TRANSCRIPTION}.delta", item_id=item, content_index=0, delta=text)

    def completed(self, item: str, transcript: str, duration_ms: int) -> str:
        """Return the event with the whole text of an item."""
        usage = {"type": "duration", "seconds": duration_ms / 1000}
        content = {"item_id": item, "content_index": 0, "transcript": transcript, "usage": usage}
        return self.write(f"{_TRANSCRIPTION}.completed", **content)

    def failed(self, item: str, error: Mapping[str, Any]) -> str:
        """Return the event for: an item has no transcript."""
        return self.write(f"{_TRANSCRIPTION}.failed", item_id=item, content_index=0, error=error)


def _item(item: str) -> dict[str, Any]:
    content = [{"type": "input_audio", "transcript": None}]
    return {
        "id": item,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": content,
    }
