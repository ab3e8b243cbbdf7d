"""The written form of words without a punctuation model."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.engine.text.hotword_spelling import NO_SPELLINGS, Spellings
from streamer.engine.text.written_form import Form, WrittenToken, read_tokens, settled_tokens, written_tokens


def written(
    words: Sequence[str], *, begins: bool = True, spellings: Spellings = NO_SPELLINGS, rules: bool = True
) -> list[WrittenToken]:
    """Return the written form of all words."""
    return written_tokens(read_tokens(words, Form(spellings, rules)), begins=begins, capitals=rules)


def settled(words: Sequence[str], stable: int, *, spellings: Spellings = NO_SPELLINGS, rules: bool = True) -> int:
    """Return how many tokens cannot change, whatever follows the first `stable` words."""
    known = words[: max(0, stable)]
    return settled_tokens(read_tokens(known, Form(spellings, rules)), len(known))
