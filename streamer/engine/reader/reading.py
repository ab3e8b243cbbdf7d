"""What a reader reads in one segment."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from streamer.base.limits import LANGUAGE


@dataclass(frozen=True)
class ReadingOptions:
    """How a segment is read. A reader of one language that cannot translate does as if nothing was wanted.

    `language`: a code, or `auto`. `translate`: into English. `prompt`: what was said before, or how names are written.
    `times`: whether the words are wanted with the times that the reader finds.
    """

    language: str = LANGUAGE
    translate: bool = False
    prompt: str = ""
    times: bool = False

    def as_json(self) -> str:
        """Return the input of the model `reader`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, content: str | bytes) -> ReadingOptions:
        """Read the input of a model `reader`. ValueError if it is none."""
        try:
            options = cls(**json.loads(content))
        except TypeError as error:
            raise ValueError(f"these are no options of a reader: {error}") from error
        if [type(value) for value in vars(options).values()] != [str, bool, str, bool]:
            raise ValueError(f"these are no options of a reader: {options}")
        return options


USUAL: Final = ReadingOptions()


@dataclass(frozen=True)
class TimedWord:
    """A written word with its marks, and its place in the segment."""

    text: str
    start_ms: int
    end_ms: int
    probability: float


@dataclass(frozen=True)
class Token:
    """A part of the text, and the logarithm of its probability after the parts before it."""

    text: str
    log_probability: float


@dataclass(frozen=True)
class Difference:
    """Where a reading differs from other words: they would stand at the characters `start` to `end` of its tokens.

    `own`: the natural log of the probability of what was read there. `gain`: how much greater that of the other words
    is, the next tokens included. A reader that did not compare them says nothing, which is 0.
    """

    start: int
    end: int
    words: tuple[str, ...]
    own: float = 0.0
    gain: float = 0.0


@dataclass(frozen=True)
class Reading:
    """The text of a segment, and its tokens.

    `log_probability`: the mean of all tokens, the ends of parts among them; what nothing was read from has 0.
    `complete`: whether the reader ended by itself, and not for too many tokens or because it ran in circles. `width`:
    the numbers of a frame of the reader, which tell readers apart. `differences` are those from the other words that
    the reader was asked about, in order. `language`: what was spoken, of a reader that has several. `words`: those of
    the text with their times, if they are wanted and the reader knows them.
    """

    text: str = ""
    tokens: tuple[Token, ...] = ()
    log_probability: float = 0.0
    complete: bool = True
    width: int = 0
    differences: tuple[Difference, ...] = ()
    language: str = ""
    words: tuple[TimedWord, ...] = ()

    def as_json(self) -> str:
        """Return the answer of the model `reader`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, answer: str | bytes) -> Reading:
        """Read the answer of a model `reader`, leaving out other fields. ValueError if it is none."""
        try:
            content = json.loads(answer)
            tokens = tuple(Token(str(each["text"]), _logarithm(each["log_probability"])) for each in content["tokens"])
            mean, complete = _logarithm(content["log_probability"]), content["complete"] is True
            differences = tuple(_difference(each) for each in content.get("differences", ()))
            language, words = str(content.get("language", "")), tuple(map(_word, content.get("words", ())))
            width = int(content.get("width", 0))
            return cls(str(content["text"]), tokens, mean, complete, width, differences, language, words)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the answer of the reader has no reading: {error!r}") from error


def _word(content: Mapping[str, Any]) -> TimedWord:
    start_ms, end_ms, probability = int(content["start_ms"]), int(content["end_ms"]), float(content["probability"])
    if not 0 <= start_ms <= end_ms or not 0 <= probability <= 1:
        raise ValueError(f"{content} is no word with its place")
    return TimedWord(str(content["text"]), start_ms, end_ms, probability)


def _difference(content: Mapping[str, Any]) -> Difference:
    words = tuple(str(word) for word in content["words"])
    gain = float(content["gain"])
    if not math.isfinite(gain):
        raise ValueError(f"{gain} is no difference of logarithms")
    return Difference(int(content["start"]), int(content["end"]), words, _logarithm(content["own"]), gain)


def _logarithm(value: float) -> float:
    """Return the logarithm of a probability. ValueError for other numbers."""
    if not math.isfinite(value) or value > 0:
        raise ValueError(f"{value} is not the logarithm of a probability")
    return float(value)
