"""Words of a reference against words of a hypothesis: which ones are right, and how many errors of which kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz.distance import Levenshtein

RIGHT: Final = "right"
SUBSTITUTED: Final = "substituted"
DELETED: Final = "deleted"
INSERTED: Final = "inserted"

_KINDS: Final = {"equal": RIGHT, "replace": SUBSTITUTED, "delete": DELETED, "insert": INSERTED}


@dataclass(frozen=True)
class Pair:
    """A place of the alignment: the numbers of its words in reference and hypothesis, None where it has none."""

    kind: str
    reference: int | None
    hypothesis: int | None


@dataclass(frozen=True)
class Errors:
    """Counts that can be added up."""

    words: int = 0
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    characters: int = 0
    character_errors: int = 0

    @property
    def word_errors(self) -> int:
        """All errors in words."""
        return self.substitutions + self.insertions + self.deletions

    def __add__(self, other: Errors) -> Errors:
        return Errors(*(mine + theirs for mine, theirs in zip(self.counts(), other.counts(), strict=True)))

    def counts(self) -> tuple[int, ...]:
        """In the order of the fields."""
        return (
            self.words,
            self.substitutions,
            self.insertions,
            self.deletions,
            self.characters,
            self.character_errors,
        )


def aligned(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """The words of both side by side, with as few errors as possible."""
    pairs = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        references = range(step.src_start, step.src_end)
        hypotheses = range(step.dest_start, step.dest_end)
        for place in range(max(len(references), len(hypotheses))):
            pairs.append(
                Pair(
                    _KINDS[step.tag],
                    references[place] if place < len(references) else None,
                    hypotheses[place] if place < len(hypotheses) else None,
                )
            )
    return pairs


def count(reference: Sequence[str], hypothesis: Sequence[str]) -> Errors:
    """The errors of one utterance; characters are those of the words with one space between them."""
    kinds = [pair.kind for pair in aligned(reference, hypothesis)]
    letters = " ".join(reference)
    return Errors(
        words=len(reference),
        substitutions=kinds.count(SUBSTITUTED),
        insertions=kinds.count(INSERTED),
        deletions=kinds.count(DELETED),
        characters=len(letters),
        character_errors=Levenshtein.distance(letters, " ".join(hypothesis)),
    )
