"""What a reader reads in one segment."""

from __future__ import annotations

from dataclasses import dataclass


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
