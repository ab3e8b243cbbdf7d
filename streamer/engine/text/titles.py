"""Titles before names: Mr., Dr. This is a stage of the written form."""

from __future__ import annotations

from streamer.engine.text.spoken_numbers import TrackedWords

# These are abbreviated only before a name. The capital of the next word shows that it is a name.
TITLES = {"mister": "Mr.", "missus": "Mrs.", "doctor": "Dr.", "saint": "St."}

_ALWAYS = {"mr": "Mr.", "mrs": "Mrs.", "ms": "Ms."}


def title_at(words: TrackedWords, at: int) -> tuple[str, int] | None:
    """Return the title here that is always abbreviated, and the position after it; None without one."""
    word = words.at(at)
    return (_ALWAYS[word], at + 1) if word in _ALWAYS else None
