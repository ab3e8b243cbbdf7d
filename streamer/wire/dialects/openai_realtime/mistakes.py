"""The mistakes in events of the client. The client receives each as an error, and the session stays open."""

from __future__ import annotations

from typing import Any, Final

INVALID: Final = "invalid_value"
COMMIT_EMPTY: Final = "input_audio_buffer_commit_empty"


def is_unicode(text: str) -> bool:
    """Return whether a text of the client can be sent back: JSON may name characters that do not exist in Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Mistake(Exception):
    """A mistake in an event of the client: a sentence, a code word, and the name of the wrong setting."""

    def __init__(self, message: str, *, code: str = INVALID, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param

    def content(self, event_id: str | None) -> dict[str, Any]:
        """Return the content of the error. `event_id`: the client's name of its event."""
        return {
            "type": "invalid_request_error",
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": event_id,
        }
