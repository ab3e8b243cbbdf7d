"""Tunes how much the neural language model counts, on alternatives that were searched and scored once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.rescoring import BothScores, Rescorer
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_search import BeamSearch
from streamer.training.acoustic import units
from streamer.training.search.corpus_errors import error_rates, mean_over_corpora
from streamer.training.search.emission_cache import EmittedUtterance
from streamer.training.search.search_trials import run_search
from streamer.training.search.weight_tuning import RESCORING, tune


@dataclass(frozen=True)
class Alternatives:
    """The alternatives of one utterance: their texts, the scores of the search, and those of both language models."""

    texts: list[list[str]]
    scores: list[float]
    both: list[BothScores]

    def best(self, options: BeamOptions) -> list[str]:
        """The text that these weights choose."""
        weights = options.neural_share, options.neural_weight, options.neural_end_weight
        totals = [score + both.gain(*weights) for score, both in zip(self.scores, self.both, strict=True)]
        return self.texts[max(range(len(totals)), key=lambda number: totals[number])]


@dataclass(frozen=True)
class ScoredSet:
    """The alternatives of all utterances, and what it cost to score those of one with the neural model."""

    spoken: Sequence[EmittedUtterance]
    alternatives: list[Alternatives]
    cost_ms: float

    def errors(self, options: BeamOptions) -> dict[str, float]:
        """Word errors in percent by corpus with these weights."""
        return error_rates(self.spoken, [one.best(options) for one in self.alternatives])

    def least_errors(self) -> float:
        """Word errors in percent if the best alternative were always chosen."""
        wrong = sum(
            min(units.errors(one.words, text) for text in found.texts)
            for one, found in zip(self.spoken, self.alternatives, strict=True)
        )
        return 100 * wrong / max(sum(len(one.words) for one in self.spoken), 1)


def score_alternatives(
    spoken: Sequence[EmittedUtterance], lexicon: Lexicon, language: LanguageModel, rescorer: Rescorer,
    options: BeamOptions, streams: int,
) -> ScoredSet:  # fmt: skip
    """Search all utterances, and score their alternatives."""
    search, spent = BeamSearch(lexicon, language, units.PHONE_UNITS, streams, options), 0.0

    def result(slot: int) -> Alternatives:
        nonlocal spent
        ranked = search.ranking(slot)[: options.rescored] or [((), 0.0)]
        texts = [[word.text for word in words] for words, _ in ranked]
        settled = search.finish([slot])[0].stable
        began = time.process_time()
        both = rescorer.compare(texts[0][:settled], [text[settled:] for text in texts])
        spent += time.process_time() - began
        return Alternatives(texts, [score for _, score in ranked], both)

    found, _, _ = run_search(search, spoken, streams, result)
    return ScoredSet(spoken, found, 1000 * spent / max(len(spoken), 1))


def tune_rescoring(scored: ScoredSet, start: BeamOptions, tell: Callable[[str], None]) -> BeamOptions:
    """The weights of the neural model with which the corpora have the fewest errors in the mean."""

    def judge(trial: BeamOptions) -> float:
        return mean_over_corpora(scored.errors(trial)) if 0 < trial.neural_share <= 1 else math.inf

    return tune(judge, start, tell, RESCORING)
