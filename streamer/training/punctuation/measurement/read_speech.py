"""Finds the printed marks and capitals of recordings in which people read printed text.

The sentences of a text are looked for in the words of each recording. Words outside all sentences have no labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.training.data.corpus import CorpusError, Utterance
from streamer.training.language.text_sources import paragraphs
from streamer.training.punctuation.punctuated_text import LabelledWord, labelled_sentences

_FEWEST_WORDS = 4  # a shorter sentence would be found by chance


@dataclass(frozen=True)
class ReadClip:
    """A recording with the words that were read, in lower case, and how they were printed."""

    utterance: Utterance
    words: list[LabelledWord]

    @property
    def known(self) -> float:
        """The share of words whose mark is known."""
        return sum(word.mark is not None for word in self.words) / len(self.words)


class PrintedText:
    """An index of printed sentences by their first words."""

    def __init__(self, paragraphs: Iterable[str]) -> None:
        self._by_start: dict[tuple[str, ...], list[list[LabelledWord]]] = defaultdict(list)
        for paragraph in paragraphs:
            words = [word for sentence in labelled_sentences(paragraph) for word in sentence]
            if len(words) >= _FEWEST_WORDS:
                self._by_start[tuple(word.word for word in words[:_FEWEST_WORDS])].append(words)

    @classmethod
    def read(cls, files: Sequence[Path]) -> PrintedText:
        """Read text files with a sentence or paragraph in each line."""
        for path in files:
            if not path.is_file():
                raise CorpusError(f"{path} is missing: it has the printed text of the recordings")
        return cls(line for path in files for line in paragraphs(path.name, path.read_text(encoding="utf-8")))

    def clip(self, utterance: Utterance) -> ReadClip:
        """Return the recording with the labels of all sentences that were found in it."""
        spoken = utterance.text.split()
        words: list[LabelledWord] = []
        while len(words) < len(spoken):
            place = len(words)
            fitting = [
                printed
                for printed in self._by_start.get(tuple(spoken[place : place + _FEWEST_WORDS]), ())
                if [word.word for word in printed] == spoken[place : place + len(printed)]
            ]
            fitting.append([LabelledWord(spoken[place], None, None, False)])
            words += sorted(fitting, key=len)[-1]
        return ReadClip(utterance, words)
