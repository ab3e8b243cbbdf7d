"""Speechmatics' realtime format, the websocket `/v2`: final words with their marks, and ends of utterances. Pure.

The first message says everything, also whether the audio is samples or a recording in any format. Finals come when a
segment ends. With `max_delay`, words that will not change any more come before that, each at the latest so long after
its end. Channels come apart, in base64, and are recognised together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Done, Error, Flushed, Partial, ServerMessage, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import AFTER_TEXT_BOUNDS_MS, SETTLE_BOUNDS_MS
from streamer.base.text import is_spaceless, separator
from streamer.wire.dialects.audio_first import Interleaver
from streamer.wire.dialects.client_values import samples
from streamer.wire.dialects.dialect import FLUSH, Opening, Reply, Step
from streamer.wire.dialects.speechmatics_config import Recognition
from streamer.wire.dialects.speechmatics_format import (
    CHANNEL_AUDIO,
    CHANNEL_END,
    ENDS,
    SpeechmaticsFormat,
    speaker_label,
    write,
)
from streamer.wire.errors import bad, quote

PATH: Final = "/v2"
FORMAT: Final = "2.9"  # of transcripts
# The end of a segment is known when the audio after its last word is recognised, and that is some audio too late.
_INEXACT_MS: Final = 120
_MOST_APART_S: Final = 10  # how far one channel may be ahead of another
_MARKS: Final = ".,?!;:…。，、．！？；：؟،؛।"


@dataclass
class _Channel:
    """What the client knows of one channel. Times count from the first audio of the websocket."""

    told: int = 0  # words of the running segment that the client has as final ones
    guessed: bool = False  # it has words that may change
    speaking: bool = False  # it has words, and no end of their utterance
    end_ms: int = 0  # of its last final word
    answered_ms: int = -1  # where a silence has ended an utterance that the client wants to end, too


class Speechmatics(SpeechmaticsFormat):
    """One websocket in the format of all but voice agents."""

    protocol = "speechmatics"
    path = PATH
    other_paths = ("/v2/", "/v2/{language}")  # the language stands in the first message, too
    messages = (*SpeechmaticsFormat.messages, CHANNEL_AUDIO, CHANNEL_END)

    def __init__(self, opening: Opening) -> None:
        self._channels: dict[int | None, _Channel] = {}
        self._parts: Interleaver | None = None
        self._forced: deque[int | None] = deque()  # channels whose utterances must end; None: all
        super().__init__(opening)

    def options_of(self, asked: Recognition) -> JsonObject:
        """Return the options that say when words are final, and those of channels."""
        ends: JsonObject = {"partial_words": True, "speech": False}
        if asked.silence_ms:
            low, high = AFTER_TEXT_BOUNDS_MS
            ends["endpoint"] = {"after_text_ms": min(max(asked.silence_ms, low), high)}
        if asked.delay_ms:
            low, high = SETTLE_BOUNDS_MS
            ends["settle_ms"] = min(max(asked.delay_ms, low), high)
        if asked.labels:
            ends |= {"multichannel": True}
        return ends

    # What the client sends

    @property
    def between(self) -> bool:
        """Whether nothing is being said now."""
        return not self._forced and not any(each.guessed or each.told for each in self._channels.values())

    def begin(self, asked: Recognition) -> None:
        """Take the form of the audio, also of channels."""
        super().begin(asked)
        if asked.labels:
            self.channels = len(asked.labels)
            self._parts = Interleaver(asked.labels, asked.encoding, _MOST_APART_S * asked.sample_rate)

    def force(self, command: JsonObject) -> Iterator[Step]:
        """End the utterance, because the client says so."""
        label = command.get("channel")
        self._forced.append(None if label is None else self._channel(label))
        if self.running:
            yield FLUSH
        else:
            yield from map(Reply, self._force())

    def take(self, kind: str, command: JsonObject) -> Iterator[Step]:
        """Take audio of a channel, or its end."""
        channel, parts = self._channel(command.get("channel")), self._parts
        assert parts is not None
        if kind == CHANNEL_END:
            yield from self.hear(parts.end(channel))
            if parts.over:
                yield from self.finish()
            return
        yield from self.hear(parts.add(channel, samples("data", command.get("data"))))
        yield Reply(write("ChannelAudioAdded", channel=command["channel"], seq_no=parts.added[channel]))

    def _channel(self, label: object) -> int:
        labels = self.recognition.labels
        if label not in labels:
            names = ", ".join(labels) or "none"
            raise bad(ErrorCode.BAD_MESSAGE, f"'channel' must be one of {names}, not {quote(label)}.")
        return labels.index(str(label))

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session."""
        if self.again:
            return
        self.note_heard(message)
        if isinstance(message, Partial):
            yield from self._guess(message)
        elif isinstance(message, FinalMessage):
            yield from self._settle(message)
        elif isinstance(message, Flushed):
            yield from self._force()
        elif isinstance(message, Done):
            yield from self.last()
        elif isinstance(message, Error) and message.fatal:
            yield from self.fail(message.code, message.message)
        elif isinstance(message, Error):
            yield write("Warning", type="speaker_id", reason=message.message)
        if isinstance(message, (Partial, FinalMessage, Acknowledgement)):
            yield from self._pause()

    def last(self) -> Iterator[str]:
        """Yield the ends of all utterances, and that everything has come."""
        while self._forced:
            yield from self._force()
        if self.recognition.silence_ms:
            yield from [self._utterance_end(channel) for channel, each in self._channels.items() if each.speaking]
        yield from super().last()

    # Inside

    def _state(self, channel: int | None) -> _Channel:
        return self._channels.setdefault(channel, _Channel())

    def _guess(self, partial: Partial) -> Iterator[str]:
        state, words = self._state(partial.channel), partial.words or ()
        if (stable := _stable_words(partial)) > state.told:
            yield self._final(state, words[state.told : stable], partial.channel)
            state.told = stable
        rest = words[state.told :]
        if self.recognition.partials and (rest or state.guessed):
            yield self._transcript("AddPartialTranscript", rest, partial.channel)
        state.guessed = bool(rest)

    def _settle(self, final: FinalMessage) -> Iterator[str]:
        state = self._state(final.channel)
        words = final.words or (Word(final.text, final.start_ms, final.end_ms, final.confidence),)
        new, state.told, state.guessed = words[state.told :], 0, False
        self.over_ms = max(self.over_ms, self.base_ms + (final.end_ms if final.cut_ms is None else final.cut_ms))
        if new:
            yield self._final(state, new, final.channel)

    def _final(self, state: _Channel, words: Sequence[Word], channel: int | None) -> str:
        state.speaking, state.end_ms = True, self.base_ms + words[-1].end_ms
        return self._transcript("AddTranscript", words, channel)

    def _pause(self) -> Iterator[str]:
        """Yield the ends of utterances after which there has been silence for long enough."""
        silence_ms = self.recognition.silence_ms
        for channel, state in self._channels.items() if silence_ms else ():
            if state.speaking and not state.guessed and self.heard_ms - state.end_ms >= silence_ms - _INEXACT_MS:
                state.answered_ms = self.heard_ms if self._forced else -1
                yield self._utterance_end(channel)

    def _force(self) -> Iterator[str]:
        """Yield the end of the utterance that the client has asked for first."""
        channel = self._forced.popleft() if self._forced else None
        every = range(self.channels) if self.recognition.labels else (None,)
        for each in every if channel is None else (channel,):
            if self._state(each).answered_ms != self.heard_ms:
                yield self._utterance_end(each)
            self._state(each).answered_ms = -1

    def _utterance_end(self, channel: int | None) -> str:
        self._state(channel).speaking = False
        at_s = self.heard_ms / 1000
        return write("EndOfUtterance", metadata={"start_time": at_s, "end_time": at_s}, **self._label(channel))

    def _transcript(self, kind: str, words: Sequence[Word], channel: int | None) -> str:
        results: list[JsonObject] = []
        text = ""
        for word in map(self.moved, words):
            parts = list(self._results(word))
            whole = "".join(content for content, _ in parts)
            text += separator(text, whole) + whole
            results += [result for _, result in parts]
        times_s = (results[0]["start_time"], results[-1]["end_time"]) if results else (self.heard_ms / 1000,) * 2
        # Clients join transcripts as they are.
        metadata = {"start_time": times_s[0], "end_time": times_s[1], "transcript": text + separator(text, text)}
        return write(kind, format=FORMAT, metadata=metadata, results=results, **self._label(channel))

    def _results(self, word: Word) -> Iterator[tuple[str, JsonObject]]:
        """Yield a word and its marks, each with its result."""
        asked = self.recognition
        content = word.word.rstrip(_MARKS)
        rest: JsonObject = {"confidence": 1.0 if word.confidence is None else word.confidence}
        if asked.told_language:
            rest["language"] = asked.told_language
        if asked.speakers or word.speaker is not None:
            rest["speaker"] = speaker_label(word.speaker)
        start_s, end_s = word.start_ms / 1000, word.end_ms / 1000
        if content:
            alternatives = [{"content": content, **rest}]
            yield content, {"type": "word", "start_time": start_s, "end_time": end_s, "alternatives": alternatives}
        for mark in word.word[len(content) :]:
            if asked.marks is None or mark in asked.marks:
                yield (
                    mark,
                    {
                        "type": "punctuation",
                        "start_time": end_s,
                        "end_time": end_s,
                        "is_eos": mark in ENDS,
                        "attaches_to": "previous",
                        "alternatives": [{"content": mark, **rest}],
                    },
                )

    def _label(self, channel: int | None) -> JsonObject:
        return {} if channel is None else {"channel": self.recognition.labels[channel]}


def _stable_words(partial: Partial) -> int:
    """Return how many words will not change any more: those behind which the stable text goes on."""
    at = number = 0
    for word in partial.words or ():
        found = partial.text.find(word.word, at)
        at = found + len(word.word)
        after = partial.text[at : at + 1]
        if found < 0 or at >= partial.stable or not (after.isspace() or is_spaceless(after)):
            break
        number += 1
    return number
