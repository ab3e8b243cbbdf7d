"""Measures how often surely recognised words are right, on a prepared set whose texts are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.training.acoustic.units import errors
from streamer.training.labelling.labelling import STEP_MS, hear, text_scores
from streamer.training.labelling.labels import sureness
from streamer.training.search.emission_cache import read_emissions

SURE_SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)


@dataclass(frozen=True)
class Heard:
    """An utterance with known text: how sure its recognised words are, and how many of them are wrong."""

    sureness: float
    wrong: int
    words: int


@dataclass(frozen=True)
class SurenessRow:
    """The surest share of the utterances."""

    share: float
    least: float
    words_wrong: float

    def __str__(self) -> str:
        return f"{self.share:4.0%} surest: sureness {self.least:5.2f} or more, {self.words_wrong:.1%} of words wrong"


def check_sureness(bundle: Path, work: Path, name: str, beam: int) -> list[SurenessRow]:
    """Recognise a prepared set, and return the table of its surest utterances."""
    spoken = read_emissions(bundle, work, name, work, STEP_MS)
    scores = text_scores(bundle)
    utterances = []
    for one, words in zip(spoken, hear(spoken, bundle, beam), strict=True):
        if words:
            texts = [word.text for word in words]
            (own,) = scores.score(one.emissions, [" ".join(texts)])
            utterances.append(Heard(sureness(words, own), errors(one.words, texts), len(one.words)))
    return list(sureness_rows(utterances))


def sureness_rows(heard: Sequence[Heard]) -> Iterator[SurenessRow]:
    """Return how many words are wrong among the surest utterances, for several shares of them."""
    surest = sorted(heard, key=lambda one: one.sureness, reverse=True)
    for share in SURE_SHARES if heard else ():
        part = surest[: max(round(share * len(surest)), 1)]
        wrong, words = sum(one.wrong for one in part), sum(one.words for one in part)
        yield SurenessRow(share, part[-1].sureness, wrong / words)
