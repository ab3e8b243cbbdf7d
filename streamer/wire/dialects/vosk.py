"""The format of vosk-server, in which each message of the client is answered by exactly one. Pure.

Most clients send their next audio only after that answer. So it comes with what is known by then: a final if one is
due, else a partial. It never waits for more audio. Only while much audio is not recognised yet it waits for that, so a
client that sends a file as fast as it gets answers gets them in time. If several finals are due they are one answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from streamer.base.events import Alternative, Done, Error, Flushed, Partial, ServerMessage, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import MOST_ALTERNATIVES, MOST_HOTWORD_WORDS, SAMPLE_RATES
from streamer.base.text import json_text
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import FLUSH, Hangup, Opening, Reply, Step
from streamer.wire.errors import CloseCode, quote
from streamer.wire.options import hints

PATH: Final = "/vosk"
SAMPLE_RATE: Final = 8000  # unless the client says another one
UNKNOWN: Final = "[unk]"  # in a list of phrases: anything else
# What the service does with the keys of a config: a page shows this, and a test compares both.
CONFIG: Final = {
    "sample_rate": "a number or its text, 8000 to 192000; without it 8000. It counts until the first audio",
    "words": "words with times and confidence in finals; on unless it is false",
    "partial_words": "`partial_result`, the words of a partial",
    "max_alternatives": "above 0, a final has `alternatives`: the best text with its words, and other texts",
    "phrase_list": "hotwords, each phrase or the words of a long one; anything else is heard as well",
    "model": "the public name of a model; any other name is ignored",
}
# An answer waits while more audio than this is not recognised yet. It is longer than a step of any model.
LAG_MS: Final = 3000
# So many frames may come before the answer to the first of them. Clients that wait for each answer send one.
_MOST_OWED: Final = 100
_MOST_OWED_TO_RESET: Final = 1000


class Vosk(AudioFirst):
    """One websocket of a client of Vosk."""

    protocol = "vosk"
    path = PATH
    sample_rate = SAMPLE_RATE
    written = False

    def __init__(self, opening: Opening) -> None:
        self._words = True
        self._partial_words = False
        self._alternatives = 0
        self._config: dict[str, object] = {}  # options of the next session
        # Not sent yet, each with `base_ms`: at most those of the audio that is not answered yet.
        self._finals: list[tuple[FinalMessage, int]] = []
        self._partial: Partial | None = None
        self._owed = 0  # frames without an answer
        self._resets = 0  # the same; what comes after them is answered after them
        self._heard_ms = 0  # the length of the audio that is recognised
        self._ended = False
        super().__init__(opening)

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        # Those of the native protocol have the best text among them.
        texts = min(self._alternatives, MOST_ALTERNATIVES) if self._alternatives > 1 else 0
        return {**self._config, "alternatives": texts, "partial_words": self._partial_words}

    # What the client sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio, a config, a reset or the end."""
        if self._ended:
            return
        if isinstance(message, bytes):
            yield from self.hear(message)
            self._owed += 1
            yield from map(Reply, self._answers())
            if self._owed > _MOST_OWED_TO_RESET:
                yield Hangup(CloseCode.REFUSED, "Too many messages came before a reset was answered; wait for it.")
            return
        command = _object(message)
        if isinstance(config := command.get("config"), dict):
            yield from self._configure(config)
        elif "eof" in command:
            self._ended = True
            if not self._resets:
                yield from (Reply(self._heard()) for _ in range(self._owed))
                self._owed = 0
            if not self.running:
                yield Reply(self._final())
            yield from self.end()
            yield Hangup(CloseCode.DONE)
        elif "reset" in command and self.running:
            self._resets += 1
            yield FLUSH
        elif "reset" in command:
            yield Reply(self._final())

    def rest(self) -> Iterator[Step]:
        """End the session, unless it is the client that waits: for an answer that this service owes."""
        if not self._owed and not self._resets:
            yield from super().rest()

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Keep results for the answers to the next frames. Yield the answer to a reset, or to the end."""
        if (audio_ms := getattr(message, "audio_ms", None)) is not None:
            self._heard_ms = max(self._heard_ms, self.base_ms + audio_ms)
        if isinstance(message, Partial):
            self._partial = message
        elif isinstance(message, FinalMessage):
            self._finals.append((message, self.base_ms))
            self._partial = None
        elif isinstance(message, Flushed) and self._resets:
            self._resets -= 1
            yield self._final()
        elif isinstance(message, Done):
            self._partial, self._resets = None, 0
            if self._ended:
                yield self._final()
        elif isinstance(message, Error) and message.fatal and self._finals:
            # No frame will come for it any more. As a final it would look like the answer to a reset, or to the end.
            text = " ".join(final.text for final, _ in self._finals)
            self._finals.clear()
            yield _write({"partial": text})
        yield from self._answers()

    # Inside

    def _configure(self, config: JsonObject) -> Iterator[Step]:
        rate = config.get("sample_rate")
        if rate is not None and not self.running:
            number = _number(rate)
            if number is None or not SAMPLE_RATES[0] <= number <= SAMPLE_RATES[1]:
                bounds = f"{SAMPLE_RATES[0]} to {SAMPLE_RATES[1]}"
                yield Hangup(CloseCode.REFUSED, f"'sample_rate' must be {bounds}, not {quote(rate)}.")
                return
            self.change_rate(round(number))
        self._words = bool(config.get("words", self._words))
        self._partial_words = bool(config.get("partial_words", self._partial_words))
        if (most := _number(config.get("max_alternatives"))) is not None:
            self._alternatives = max(0, round(most))
        if isinstance(phrases := config.get("phrase_list"), list):
            self._config["hotwords"] = hints(_phrases(phrases))
        if isinstance(model := config.get("model"), str) and model in self._models:
            self._config["model"] = model

    def _answers(self) -> Iterator[str]:
        """Yield the answers to frames, if it is time: the finals that are due, or else what is heard now."""
        in_time = self.sent_ms - self._heard_ms <= LAG_MS or self._owed > _MOST_OWED
        if in_time and not self._resets:
            owed, self._owed = self._owed, 0
            for _ in range(owed):
                yield self._final() if self._finals else self._heard()

    def _heard(self) -> str:
        partial = self._partial
        answer: JsonObject = {"partial": "" if partial is None else partial.text}
        if self._partial_words and partial is not None and partial.words:
            answer["partial_result"] = [_word(word, self.base_ms) for word in partial.words]
        return _write(answer)

    def _final(self) -> str:
        """Return the final for all that is due."""
        words = [_word(word, base_ms) for final, base_ms in self._finals for word in final.words or ()]
        finals, self._finals = [final for final, _ in self._finals], []
        text = " ".join(final.text for final in finals)
        if not self._alternatives:
            return _write({"result": words, "text": text} if words and self._words else {"text": text})
        confidence = min((final.confidence for final in finals), default=1.0)
        # Only the best text has words, because the recogniser has none for the others.
        plain = [{name: word[name] for name in ("end", "start", "word")} for word in words]
        best = {"confidence": confidence, **({"result": plain} if plain and self._words else {}), "text": text}
        known: Iterable[Alternative] = finals[0].alternatives or () if len(finals) == 1 else ()
        others = [{"confidence": each.confidence, "text": each.text} for each in known if each.text != text]
        return _write({"alternatives": [best, *others][: self._alternatives]})


def _write(answer: JsonObject) -> str:
    """Write an answer as the original does, in several lines."""
    return json_text(answer, indent=2, separators=(",", " : "))


def _word(word: Word, base_ms: int) -> JsonObject:
    return {
        **({} if word.confidence is None else {"conf": word.confidence}),
        "end": (base_ms + word.end_ms) / 1000,
        "start": (base_ms + word.start_ms) / 1000,
        "word": word.word,
    }


def _object(text: str) -> JsonObject:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, (int, float, str)) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 1e9 else None


def _phrases(phrases: list[Any]) -> Iterator[str]:
    for phrase in phrases:
        words = phrase.split() if isinstance(phrase, str) and phrase != UNKNOWN else []
        if 0 < len(words) <= MOST_HOTWORD_WORDS:
            yield " ".join(words)
        else:
            yield from words
