"""The phones of written text, each word in its first pronunciation: more text for the n-gram over phones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from streamer.training.acoustic import units
from streamer.training.data.corpus import CorpusError
from streamer.training.language.pronunciation import Pronunciations
from streamer.training.language.spoken_text import UNKNOWN, sentences


def written_phones(texts: Sequence[Path], pronunciations: Pronunciations) -> Iterator[list[int]]:
    """Yield the units of every sentence of these files, which have one paragraph a line. A boundary follows every word.

    Sentences with a word that cannot be spoken are left out.
    """

    @lru_cache(1_000_000)
    def word_units(word: str) -> tuple[int, ...]:
        variants = [] if word == UNKNOWN else pronunciations.variants(word)
        if not variants:
            return ()
        return (*(units.PHONE_NUMBER[phone] for phone in variants[0]), units.PHONE_NUMBER[units.BOUNDARY])

    for text in texts:
        try:
            lines = text.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CorpusError(f"{text} cannot be read: {error}") from error
        for line in lines:
            for sentence in sentences(line):
                words = [word_units(word) for word in sentence]
                if all(words):
                    yield [unit for word in words for unit in word]
