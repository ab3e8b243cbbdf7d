"""The format of the websocket server of sherpa-onnx for streaming models: the dialect, and its messages. Pure.

`streamer load --format sherpa-onnx` reads the same messages from either server.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamer.base.events import Done, Error, Partial, ServerMessage, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.text import json_text
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import Opening, Reply, Step

PATH: Final = "/sherpa-onnx"
END: Final = "Done"  # the client has sent all of its audio
ENDED: Final = "Done!"  # the client has got everything
BEGINS_WORD: Final = (" ", "\u2581")  # a token that begins a word begins with one of these
_LEAST: Final = 1e-6  # of a confidence, which is written as a logarithm


@dataclass(frozen=True)
class Result:
    """What a server has recognised of one segment. Times count from `start_time`, in seconds."""

    text: str
    tokens: tuple[str, ...]
    timestamps: tuple[float, ...]
    segment: int
    start_time: float
    is_final: bool
    ys_probs: tuple[float, ...] = ()  # logarithms
    is_eof: bool = False

    @classmethod
    def of_text(cls, text: str) -> Result:
        """Read a message. Fields that nobody reads here may be missing."""
        content = json.loads(text)
        return cls(
            content["text"],
            tuple(content["tokens"]),
            tuple(content["timestamps"]),
            content["segment"],
            content["start_time"],
            content["is_final"],
            is_eof=content["is_eof"],
        )

    def as_text(self) -> str:
        """Write the message, with all fields of the original."""
        return json_text(
            {
                "text": self.text,
                "tokens": self.tokens,
                "timestamps": self.timestamps,
                "ys_probs": self.ys_probs,
                "lm_probs": [],
                "context_scores": [],
                "segment": self.segment,
                "words": [],
                "start_time": self.start_time,
                "is_final": self.is_final,
                "is_eof": self.is_eof,
            }
        )


class SherpaOnnx(AudioFirst):
    """One websocket of a client of sherpa-onnx. The tokens of its results are whole words."""

    protocol = "sherpa_onnx"
    path = PATH
    encoding = "pcm_f32le"
    written = False

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._segment = 0
        self._begin_ms = 0  # where the present segment begins
        self._waiting: Result | None = None  # a final that may be the last one
        self._ended = False  # the client has sent END, and waits for ENDED

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        return {"partial_words": True}

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio, or the end of it. Any other text is ignored, as by the original."""
        if isinstance(message, bytes):
            yield from self.hear(message)
        elif message == END:
            self._ended = True
            if self.running:
                yield from self.end()
            else:
                yield from map(Reply, self._finish())

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield results. The last one says that it is the last, so after END each waits for what comes next."""
        if isinstance(message, Partial):
            yield from self._release()
            yield self._result(message.text, message.words or ()).as_text()
        elif isinstance(message, FinalMessage):
            yield from self._release()
            self._waiting = self._result(message.text, message.words or (), final=True)
            self._segment += 1
            self._begin_ms = self.base_ms + (message.end_ms if message.cut_ms is None else message.cut_ms)
            if not self._ended:
                yield from self._release()
        elif isinstance(message, Done) and self._ended:
            yield from self._finish()
        elif isinstance(message, Error) and message.fatal:
            yield from self._release()

    # Inside

    def _result(self, text: str, words: tuple[Word, ...], *, final: bool = False, eof: bool = False) -> Result:
        return Result(
            text,
            tuple(f" {word.word}" for word in words),
            tuple(max(0, self.base_ms + word.start_ms - self._begin_ms) / 1000 for word in words),
            self._segment,
            self._begin_ms / 1000,
            final,
            tuple(round(math.log(max(_LEAST, word.confidence or 0.0)), 4) for word in words) if final else (),
            eof,
        )

    def _release(self) -> Iterator[str]:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            yield waiting.as_text()

    def _finish(self) -> Iterator[str]:
        """Yield the last messages of a recording. Another one may follow."""
        last = self._waiting or self._result("", (), final=True)
        yield Result(**{**vars(last), "is_eof": True}).as_text()
        yield ENDED
        self._waiting, self._ended = None, False
        self._segment = self._begin_ms = 0
        self.restart()
