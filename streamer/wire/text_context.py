"""The words before a cut, which decide the marks and capitals after it. A client sends them to a new session. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamer.limits import LONGEST_CONTEXT_PAUSE_MS, LONGEST_CONTEXT_WORD, MOST_CHANNELS, MOST_CONTEXT_WORDS
from streamer.wire.errors import bad


@dataclass(frozen=True)
class ContextWord:
    """A word as it was spoken, and the silence after it."""

    word: str
    pause_ms: int


@dataclass(frozen=True)
class TextContext:
    """The last words before a cut. `begins`: the first word after the cut begins a sentence."""

    begins: bool
    words: tuple[ContextWord, ...]


def contexts(name: str, value: Any) -> tuple[TextContext | None, ...]:
    """Read the option with this name: for each channel the context of a final or null. Raise WireError if not valid."""
    if type(value) is not list or len(value) > MOST_CHANNELS:
        raise bad("bad_option", f"'{name}' must be a list of at most {MOST_CHANNELS} entries, one for each channel.")
    return tuple(None if entry is None else _context(name, entry) for entry in value)


def _context(name: str, entry: Any) -> TextContext:
    fields = entry if type(entry) is dict else {}
    begins, words = fields.get("begins"), fields.get("words")
    if fields.keys() != {"begins", "words"} or type(begins) is not bool or type(words) is not list:
        raise bad("bad_option", f"An entry of '{name}' must be null, or the 'context' of a final.")
    if len(words) > MOST_CONTEXT_WORDS:
        raise bad("bad_option", f"An entry of '{name}' must have at most {MOST_CONTEXT_WORDS} words, not {len(words)}.")
    return TextContext(begins, tuple(_word(name, word) for word in words))


def _word(name: str, entry: Any) -> ContextWord:
    fields: dict[str, Any] = entry if type(entry) is dict else {}
    word, pause_ms = fields.get("word", ""), fields.get("pause_ms")
    complete = fields.keys() == {"word", "pause_ms"} and type(word) is str
    if not complete or not word.isprintable() or not 0 < len(word) <= LONGEST_CONTEXT_WORD:
        raise bad("bad_option", f"A 'word' of '{name}' must have 1 to {LONGEST_CONTEXT_WORD} printable characters.")
    if type(pause_ms) is not int or not 0 <= pause_ms <= LONGEST_CONTEXT_PAUSE_MS:
        raise bad("bad_option", f"'pause_ms' of '{name}' must be a whole number from 0 to {LONGEST_CONTEXT_PAUSE_MS}.")
    return ContextWord(word, pause_ms)
