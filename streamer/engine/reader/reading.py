"""What a reader reads in one segment."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Token:
    """A part of the text, and the logarithm of its probability after the parts before it."""

    text: str
    log_probability: float


@dataclass(frozen=True)
class Reading:
    """The text of a segment, and its tokens.

    `log_probability`: the mean of all tokens, the ends of parts among them; what nothing was read from has 0.
    `complete`: whether the reader ended by itself, and not for too many tokens or because it ran in circles. `width`:
    the numbers of a frame of the reader, which tell readers apart.
    """

    text: str = ""
    tokens: tuple[Token, ...] = ()
    log_probability: float = 0.0
    complete: bool = True
    width: int = 0

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
            return cls(str(content["text"]), tokens, mean, complete, int(content.get("width", 0)))
        except (KeyError, TypeError) as error:
            raise ValueError(f"the answer of the reader has no reading: {error!r}") from error


def _logarithm(value: float) -> float:
    """Return the logarithm of a probability. ValueError for other numbers."""
    if not math.isfinite(value) or value > 0:
        raise ValueError(f"{value} is not the logarithm of a probability")
    return float(value)
