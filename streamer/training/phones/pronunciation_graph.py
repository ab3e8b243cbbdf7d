"""A graph of all ways to say a text: a branch for each pronunciation of a word, and a boundary after each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamer.training.acoustic import units
from streamer.training.language.pronunciation import Phones

START = 0
"""The node before the first unit. It stands for no unit."""


@dataclass(frozen=True)
class Place:
    """The place of a node in the text: the numbers of the word, of its pronunciation, and of the phone in that."""

    word: int
    variant: int
    phone: int


@dataclass
class PronunciationGraph:
    """Nodes in such an order that each comes after all nodes that lead to it. The text ends at the last node."""

    labels: list[int] = field(default_factory=lambda: [units.BLANK])
    before: list[list[int]] = field(default_factory=lambda: [[]])
    places: list[Place | None] = field(default_factory=lambda: [None])

    @classmethod
    def of(cls, words: Sequence[Sequence[Phones]]) -> PronunciationGraph:
        """Return the graph of these words. Each has one or more pronunciations."""
        graph, ends = cls(), [START]
        for word, variants in enumerate(words):
            after_word = []
            for variant, phones in enumerate(variants):
                last = ends
                for number, phone in enumerate(phones):
                    last = [graph._add(units.PHONE_NUMBER[phone], last, Place(word, variant, number))]
                after_word += last
            ends = [graph._add(units.PHONE_NUMBER[units.BOUNDARY], sorted(set(after_word)), None)]
        return graph

    def __len__(self) -> int:
        return len(self.labels)

    def _add(self, label: int, before: list[int], place: Place | None) -> int:
        self.labels.append(label)
        self.before.append(list(before))
        self.places.append(place)
        return len(self.labels) - 1
