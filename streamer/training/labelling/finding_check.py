"""Measures how often the sentence that was read is found, on a prepared set whose texts are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path

from streamer.training.labelling.known_sentences import KnownSentences, read_sentences
from streamer.training.labelling.labelling import CANDIDATES, STEP_MS, hear, text_scores
from streamer.training.labelling.labels import Thresholds, choose
from streamer.training.search.emission_cache import read_emissions


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
