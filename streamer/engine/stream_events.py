"""The answer to the audio of one stream: its events (`streamer/base/events.py`), or an error."""

from __future__ import annotations

from streamer.base.codes import FailureCode
from streamer.base.events import StreamEvent


class StreamError(Exception):
    """An error of one stream. The other streams of the batch go on."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


StreamAnswer = list[StreamEvent] | StreamError
