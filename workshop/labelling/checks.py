"""Measures on speech with known texts how often the sentence is found, and how often sure words are right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path

from workshop.acoustic.units import errors
from workshop.labelling.labelling import (
    CANDIDATES,
    STEP_MS,
    KnownSentences,
    Thresholds,
    choose,
    hear,
    read_sentences,
    sureness,
    text_scores,
)
from workshop.search.trials import read_emissions


class Outcome(Enum):
    """The result of looking up a recording."""

    RIGHT = "found"
    ANOTHER = "another one taken"
    NONE = "none taken"


@dataclass(frozen=True)
class FindingRow:
    """The results for recordings whose sentence is among the known ones, or is not."""

    known: bool
    outcomes: Counter[Outcome]

    def __str__(self) -> str:
        total = sum(self.outcomes.values())
        shares = ", ".join(f"{self.outcomes[each] / total:.1%} {each.value}" for each in Outcome)
        return f"{total} recordings, sentence {'known' if self.known else 'not known'}: {shares}"


def check_finding(bundle: Path, work: Path, name: str, sentences: Sequence[Path], beam: int) -> list[FindingRow]:
    """Look up each recording of a prepared set twice: with its text among the known sentences, and without it."""
    spoken = read_emissions(bundle, work, name, work, STEP_MS)
    known_sentences = KnownSentences(chain(read_sentences(sentences), (one.utterance.text for one in spoken)))
    scores, limits = text_scores(bundle), Thresholds(heard=math.inf)
    outcomes: dict[bool, Counter[Outcome]] = {True: Counter(), False: Counter()}
    for one, recognised in zip(spoken, hear(spoken, bundle, beam), strict=True):
        words = [word.text for word in recognised]
        candidates = known_sentences.nearest(words, CANDIDATES)
        own, *others = scores.score(one.emissions, [" ".join(words), *candidates])
        fitting = dict(zip(candidates, others, strict=True))
        for is_known, counted in outcomes.items():
            if not is_known:
                fitting.pop(one.utterance.text, None)
            label = choose(recognised, own, fitting, limits)
            if label is None:
                counted[Outcome.NONE] += 1
            else:
                counted[Outcome.RIGHT if label.text == one.utterance.text else Outcome.ANOTHER] += 1
    return [FindingRow(is_known, counted) for is_known, counted in outcomes.items()]


# Measures how often surely recognised words are right, on a prepared set whose texts are known.

SURE_SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0)


@dataclass(frozen=True)
class SureUtterance:
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
            utterances.append(SureUtterance(sureness(words, own), errors(one.words, texts), len(one.words)))
    return list(sureness_rows(utterances))


def sureness_rows(heard: Sequence[SureUtterance]) -> Iterator[SurenessRow]:
    """Return how many words are wrong among the surest utterances, for several shares of them."""
    surest = sorted(heard, key=lambda one: one.sureness, reverse=True)
    for share in SURE_SHARES if heard else ():
        part = surest[: max(round(share * len(surest)), 1)]
        wrong, words = sum(one.wrong for one in part), sum(one.words for one in part)
        yield SurenessRow(share, part[-1].sureness, wrong / words)
