"""Utterances, and the stretches of them in which somebody speaks.

Speech is where the alignment has phones. Pauses between phones count as speech if they are shorter than 200 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.training.data.alignment import Alignment, read_alignments
from streamer.training.data.corpus import Corpus, Utterance

SHORT_PAUSE_MS = 200


@dataclass(frozen=True)
class AlignedSpeech:
    """A corpus, and those of its utterances that could be aligned. Each has its stretches of speech, in ms."""

    corpus: Corpus
    utterances: Sequence[tuple[Utterance, list[tuple[int, int]]]]

    @classmethod
    def read(cls, folder: Path, name: str) -> AlignedSpeech:
        """Read the utterances of a prepared set that could be aligned."""
        corpus, alignments = Corpus(folder, name), read_alignments(folder, name)
        return cls(corpus, _aligned(corpus, alignments))


def speech_spans(alignment: Alignment) -> list[tuple[int, int]]:
    """Return the stretches of speech of an utterance as (start ms, end ms)."""
    spans: list[tuple[int, int]] = []
    for _, start, length, _ in alignment.phones:
        if spans and start - spans[-1][1] < SHORT_PAUSE_MS:
            spans[-1] = (spans[-1][0], start + length)
        else:
            spans.append((start, start + length))
    return spans


def _aligned(corpus: Corpus, alignments: Mapping[str, Alignment]) -> list[tuple[Utterance, list[tuple[int, int]]]]:
    usable = []
    for utterance in corpus.utterances:
        alignment = alignments.get(utterance.name)
        if alignment and alignment.aligned and alignment.phones:
            usable.append((utterance, speech_spans(alignment)))
    return usable
