"""What a new session must know of the audio before it, to give the same words as the one that it continues. Pure.

The words before a cut decide the marks and capitals after it. A client sends them to a new session.

They have a module of their own because every client loads it, and needs no other part of the events.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ContextWord:
    """A word as it was spoken, and the silence after it."""

    word: str
    pause_ms: int


@dataclass(frozen=True)
class TextContext:
    """The last words before a cut, which decide the marks and capitals of the next words, and who speaks there."""

    begins: bool  # the first word after the cut begins a sentence
    words: tuple[ContextWord, ...]
    speaking: bool | None = None  # somebody is speaking at the cut, which decides where the next segments end
    told: bool | None = None  # the state in the last event of speech; None if it is the same
