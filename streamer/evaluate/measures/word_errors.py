"""Compares the words of a hypothesis with those of a reference, and counts the errors by kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import Levenshtein

from streamer.text.joining import joined

RIGHT: Final = "right"
SUBSTITUTED: Final = "substituted"
DELETED: Final = "deleted"
INSERTED: Final = "inserted"

_KINDS: Final = {"equal": RIGHT, "replace": SUBSTITUTED, "delete": DELETED, "insert": INSERTED}


@dataclass(frozen=True)
class WordPair:
    """A pair of words: their positions in the reference and in the hypothesis, None where a word is missing."""

    kind: str
    reference: int | None
    hypothesis: int | None


@dataclass(frozen=True)
class ErrorCounts:
    """Error counts, which can be added up."""

    words: int = 0
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    characters: int = 0
    character_errors: int = 0

    @property
    def word_errors(self) -> int:
        """The number of word errors of all kinds."""
        return self.substitutions + self.insertions + self.deletions

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(*(mine + theirs for mine, theirs in zip(self.counts(), other.counts(), strict=True)))

    def counts(self) -> tuple[int, ...]:
        """Return the counts in the order of the fields."""
        return (
            self.words,
            self.substitutions,
            self.insertions,
            self.deletions,
            self.characters,
            self.character_errors,
        )


def pair_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[WordPair]:
    """Return the words of both in pairs, with as few errors as possible."""
    pairs = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        references = range(step.src_start, step.src_end)
        hypotheses = range(step.dest_start, step.dest_end)
        for index in range(max(len(references), len(hypotheses))):
            pairs.append(
                WordPair(
                    _KINDS[step.tag],
                    references[index] if index < len(references) else None,
                    hypotheses[index] if index < len(hypotheses) else None,
                )
            )
    return pairs


def count_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorCounts:
    """Return the errors of one utterance. Characters are those of the words and of the spaces between them."""
    kinds = [pair.kind for pair in pair_words(reference, hypothesis)]
    letters = joined(reference)
    return ErrorCounts(
        words=len(reference),
        substitutions=kinds.count(SUBSTITUTED),
        insertions=kinds.count(INSERTED),
        deletions=kinds.count(DELETED),
        characters=len(letters),
        character_errors=Levenshtein.distance(letters, joined(hypothesis)),
    )
