"""The results of Deepgram's formats: words, and the messages `Results` of each channel of a live session. Pure.

The finals of a channel cover its audio without a gap. The last final before the answer to a `Finalize` waits for that
answer, because clients expect both in the same message.
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

# The confidence of words that may still change: the recogniser has none.
NO_CONFIDENCE: Final = 0.0
# The times of words have an error of at most this.
_INEXACT_MS: Final = 120


def model_info(name: str) -> tuple[str, dict[str, str]]:
    """Return the UUID of a model, which is always the same for its name and this version, and its description."""
    return uuid_of(f"streamer {name} {__version__}"), {"name": name, "version": __version__, "arch": "streamer"}


def uuid_of(text: str) -> str:
    """Return a UUID that depends only on this text."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def seconds(milliseconds: int) -> float:
    """Return a time in seconds."""
    return milliseconds / 1000


def word(word: Word, *, punctuated: bool) -> dict[str, Any]:
    """Return a word as Deepgram writes it. `punctuated`: with its spoken and its written form."""
    fields = {
        "word": (word.spoken or word.word) if punctuated else word.word,
        "start": seconds(word.start_ms),
        "end": seconds(word.end_ms),
        "confidence": NO_CONFIDENCE if word.confidence is None else word.confidence,
    }
    return {**fields, "punctuated_word": word.word} if punctuated else fields


def alternative(text: str, confidence: float, words: Sequence[Word], *, punctuated: bool) -> dict[str, Any]:
    """Return a text and its words as Deepgram writes them."""
    return {
        "transcript": text,
        "confidence": confidence,
        "words": [word(each, punctuated=punctuated) for each in words],
    }


NOTHING: Final = alternative("", 0.0, (), punctuated=False)


@dataclass(frozen=True)
class _WaitingFinal:
    """A final that waits for the answer to a `Finalize`."""

    end_ms: int
    speech_final: bool
    text: dict[str, Any]


class ChannelResults:
    """The messages about one channel. Each method yields messages for the client."""

    def __init__(self, number: int, total: int, options: DeepgramOptions, request_id: str) -> None:
        """`number`: the number of the channel. `total`: how many channels the session has."""
        self._options = options
        self._index = [number, total]
        uuid, info = model_info(options.model)
        self._metadata = {"request_id": request_id, "model_info": info, "model_uuid": uuid}
        self._begin_ms = 0  # where the last final ended
        self._waiting_final: _WaitingFinal | None = None
        self._speaking = False  # the last partial had text that is not final yet
        self._last_word_ms: int | None = None  # the end of the last word, until `UtteranceEnd` is sent

    def partial(self, partial: Partial) -> Iterator[str]:
        """Yield text that may still change."""
        yield from self.release()
        self._speaking = bool(partial.text)
        transcript = alternative(partial.text, NO_CONFIDENCE, partial.words or (), punctuated=self._options.punctuated)
        yield self._results(max(partial.audio_ms, self._begin_ms), transcript)

    def final(self, final: FinalMessage, *, hold: bool) -> Iterator[str]:
        """Yield text that never changes. `hold`: keep it back for the answer to a `Finalize`."""
        yield from self.release()
        words = final.words or ()
        end_ms = max(self._begin_ms, final.end_ms, final.audio_ms if final.cut_ms is None else final.cut_ms)
        transcript = alternative(final.text, final.confidence, words, punctuated=self._options.punctuated)
        self._waiting_final = _WaitingFinal(end_ms, self._ends_speech(final), transcript)
        self._speaking = False
        self._last_word_ms = final.end_ms
        if not hold:
            yield from self.release()

    def heard(self, audio_ms: int) -> Iterator[str]:
        """Yield an empty result: audio up to this time was recognised without new text."""
        if (
            self._options.interim_results
            and not self._speaking
            and self._waiting_final is None
            and audio_ms > self._begin_ms
        ):
            yield self._results(audio_ms, NOTHING)

    def flushed(self, audio_ms: int) -> Iterator[str]:
        """Yield the answer to a `Finalize`, with the final that was held back for it."""
        final = self._waiting_final or _WaitingFinal(self._begin_ms, False, NOTHING)
        self._waiting_final = None
        self._speaking = False
        yield self._final(max(final.end_ms, audio_ms), final, from_finalize=True)

    def finish(self, audio_ms: int) -> Iterator[str]:
        """Yield the last messages, so that the finals cover all of the audio."""
        yield from self.release()
        yield from self.utterance_end(audio_ms)
        if audio_ms > self._begin_ms:
            yield self._final(audio_ms, _WaitingFinal(audio_ms, False, NOTHING))

    def release(self) -> Iterator[str]:
        """Yield the final that was held back, if there is one."""
        final, self._waiting_final = self._waiting_final, None
        if final is not None:
            yield self._final(final.end_ms, final)

    def speech_started(self, at_ms: int) -> Iterator[str]:
        """Yield that speech began, if the client asked for it."""
        if self._options.vad_events:
            yield encode({"type": "SpeechStarted", "channel": self._index, "timestamp": seconds(at_ms)})

    def utterance_end(self, audio_ms: int) -> Iterator[str]:
        """Yield that an utterance has ended, if its last word is long enough ago. This happens once for each gap."""
        gap_ms, last_ms = self._options.utterance_end_ms, self._last_word_ms
        if gap_ms is None or last_ms is None or self._speaking or self._waiting_final or audio_ms - last_ms < gap_ms:
            return
        self._last_word_ms = None
        yield encode({"type": "UtteranceEnd", "channel": self._index, "last_word_end": seconds(last_ms)})

    def _ends_speech(self, final: FinalMessage) -> bool:
        """Return whether a pause of the speaker ended this segment, and not its length or the client."""
        options = self._options
        if not options.speech_final or final.audio_ms - self._begin_ms >= LONGEST_SEGMENT_MS:
            return False
        return final.audio_ms - final.end_ms >= (options.after_text_ms or 0) - _INEXACT_MS

    def _final(self, end_ms: int, final: _WaitingFinal, *, from_finalize: bool = False) -> str:
        text = self._results(end_ms, final.text, final=final, from_finalize=from_finalize)
        self._begin_ms = end_ms
        return text

    def _results(
        self,
        end_ms: int,
        transcript: dict[str, Any],
        *,
        final: _WaitingFinal | None = None,
        from_finalize: bool = False,
    ) -> str:
        return encode(
            {
                "type": "Results",
                "channel_index": self._index,
                "duration": seconds(end_ms - self._begin_ms),
                "start": seconds(self._begin_ms),
                "is_final": final is not None,
                "speech_final": final is not None and final.speech_final,
                "channel": {"alternatives": [transcript]},
                "metadata": self._metadata,
                "from_finalize": from_finalize,
            }
        )
