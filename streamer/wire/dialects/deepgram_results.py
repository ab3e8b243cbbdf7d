"""The results of Deepgram's formats: words, and for each channel of a live session `Results` that follow each other.

The finals of a channel cover its audio without a gap. A final that may be the last one before the answer to a
`Finalize` is held back until that answer, because clients look for both in the same message. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamer import __version__
from streamer.limits import LONGEST_SEGMENT_MS
from streamer.wire.dialects.deepgram_options import DeepgramOptions
from streamer.wire.events import Final as FinalMessage
from streamer.wire.events import Partial, Word
from streamer.wire.native import encode

# The recogniser has no confidence for words that may still change.
NO_CONFIDENCE: Final = 0.0
# Times of words are this exact.
_INEXACT_MS: Final = 120


def model_info(name: str) -> tuple[str, dict[str, str]]:
    """Return the UUID of a model, which is always the same, and its description."""
    return uuid_of(f"streamer {name} {__version__}"), {"name": name, "version": __version__, "arch": "streamer"}


def uuid_of(text: str) -> str:
    """Make a UUID that is always the same for this text."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def seconds(milliseconds: int) -> float:
    """Write a time."""
    return milliseconds / 1000


def word(of: Word, *, punctuated: bool) -> dict[str, Any]:
    """Write a word. `punctuated`: with its written form beside it."""
    written = {
        "word": (of.spoken or of.word) if punctuated else of.word,
        "start": seconds(of.start_ms),
        "end": seconds(of.end_ms),
        "confidence": NO_CONFIDENCE if of.confidence is None else of.confidence,
    }
    return {**written, "punctuated_word": of.word} if punctuated else written


def alternative(text: str, confidence: float, words: Sequence[Word], *, punctuated: bool) -> dict[str, Any]:
    """Write a text with its words."""
    return {
        "transcript": text,
        "confidence": confidence,
        "words": [word(each, punctuated=punctuated) for each in words],
    }


NOTHING: Final = alternative("", 0.0, (), punctuated=False)


@dataclass(frozen=True)
class _Held:
    """A final that is not sent yet."""

    end_ms: int
    speech_final: bool
    text: dict[str, Any]


class ChannelResults:
    """The messages about one channel. Each method yields what the client gets."""

    def __init__(self, number: int, total: int, options: DeepgramOptions, request_id: str) -> None:
        """`number`: of the channel, of so many in `total`."""
        self._options = options
        self._index = [number, total]
        uuid, info = model_info(options.model)
        self._metadata = {"request_id": request_id, "model_info": info, "model_uuid": uuid}
        self._begin_ms = 0  # where the last final ended
        self._held: _Held | None = None
        self._speaking = False  # there is text that is not final yet
        self._last_word_ms: int | None = None  # its end, until the end of the utterance was told

    def partial(self, partial: Partial) -> Iterator[str]:
        """Write text that may still change."""
        yield from self.release()
        self._speaking = bool(partial.text)
        found = alternative(partial.text, NO_CONFIDENCE, partial.words or (), punctuated=self._options.punctuated)
        yield self._results(max(partial.audio_ms, self._begin_ms), found)

    def final(self, final: FinalMessage, *, hold: bool) -> Iterator[str]:
        """Write text that never changes. `hold`: it may be the last before the answer to a `Finalize`."""
        yield from self.release()
        words = final.words or ()
        end_ms = max(self._begin_ms, final.end_ms, final.audio_ms if final.cut_ms is None else final.cut_ms)
        found = alternative(final.text, final.confidence, words, punctuated=self._options.punctuated)
        self._held = _Held(end_ms, self._ends_speech(final), found)
        self._speaking = False
        self._last_word_ms = final.end_ms
        if not hold:
            yield from self.release()

    def heard(self, audio_ms: int) -> Iterator[str]:
        """Write that so much audio was recognised, without new text."""
        if self._options.interim_results and not self._speaking and self._held is None and audio_ms > self._begin_ms:
            yield self._results(audio_ms, NOTHING)

    def flushed(self, audio_ms: int) -> Iterator[str]:
        """Answer a `Finalize`."""
        held = self._held or _Held(self._begin_ms, False, NOTHING)
        self._held = None
        self._speaking = False
        yield self._final(max(held.end_ms, audio_ms), held, from_finalize=True)

    def finish(self, audio_ms: int) -> Iterator[str]:
        """Write the end, so that the finals cover all of the audio."""
        yield from self.release()
        yield from self.utterance_end(audio_ms)
        if audio_ms > self._begin_ms:
            yield self._final(audio_ms, _Held(audio_ms, False, NOTHING))

    def release(self) -> Iterator[str]:
        """Write the final that was held back."""
        held, self._held = self._held, None
        if held is not None:
            yield self._final(held.end_ms, held)

    def speech_started(self, at_ms: int) -> Iterator[str]:
        """Write that speech began."""
        if self._options.vad_events:
            yield encode({"type": "SpeechStarted", "channel": self._index, "timestamp": seconds(at_ms)})

    def utterance_end(self, audio_ms: int) -> Iterator[str]:
        """Write that an utterance has ended, if its last word is so long ago. Once for each gap."""
        gap_ms, last_ms = self._options.utterance_end_ms, self._last_word_ms
        if gap_ms is None or last_ms is None or self._speaking or self._held or audio_ms - last_ms < gap_ms:
            return
        self._last_word_ms = None
        yield encode({"type": "UtteranceEnd", "channel": self._index, "last_word_end": seconds(last_ms)})

    def _ends_speech(self, final: FinalMessage) -> bool:
        """Whether it ends because the speaker paused: neither its length nor the client ended it."""
        options = self._options
        if not options.speech_final or final.audio_ms - self._begin_ms >= LONGEST_SEGMENT_MS:
            return False
        return final.audio_ms - final.end_ms >= (options.after_text_ms or 0) - _INEXACT_MS

    def _final(self, end_ms: int, held: _Held, *, from_finalize: bool = False) -> str:
        text = self._results(end_ms, held.text, final=held, from_finalize=from_finalize)
        self._begin_ms = end_ms
        return text

    def _results(
        self, end_ms: int, found: dict[str, Any], *, final: _Held | None = None, from_finalize: bool = False
    ) -> str:
        return encode(
            {
                "type": "Results",
                "channel_index": self._index,
                "duration": seconds(end_ms - self._begin_ms),
                "start": seconds(self._begin_ms),
                "is_final": final is not None,
                "speech_final": final is not None and final.speech_final,
                "channel": {"alternatives": [found]},
                "metadata": self._metadata,
                "from_finalize": from_finalize,
            }
        )
