"""What is wrong with an event of the client, as the error that it is told. The session stays open."""

from __future__ import annotations

from typing import Any, Final

INVALID: Final = "invalid_value"
COMMIT_EMPTY: Final = "input_audio_buffer_commit_empty"


def is_unicode(text: str) -> bool:
    """Whether this text of a client can be sent back. JSON may name characters that do not exist."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Mistake(Exception):
    """An event of the client that cannot be served: a sentence, a code word, and the setting that is wrong."""

    def __init__(self, message: str, *, code: str = INVALID, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param

    def shown(self, event_id: str | None) -> dict[str, Any]:
        """Return the content of the error. `event_id`: the client's own name of its event."""
        return {
            "type": "invalid_request_error",
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": event_id,
        }
