"""Word errors of searches by corpus, and the halves of a set for fitting and evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from streamer.evaluate.manifest import HALVES, half
from streamer.training.acoustic import units
from streamer.training.search.emission_cache import EmittedUtterance


def halves(spoken: Sequence[EmittedUtterance]) -> tuple[list[EmittedUtterance], list[EmittedUtterance]]:
    """Return the half for fitting and the half for evaluation."""
    first, second = ([one for one in spoken if half(one.utterance.name) == name] for name in HALVES)
    return first, second


def error_rates(spoken: Sequence[EmittedUtterance], hypotheses: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the word error rates in percent, by corpus and of everything ("all")."""
    wrong: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for one, words in zip(spoken, hypotheses, strict=True):
        for name in (one.utterance.corpus, "all"):
            wrong[name] += units.errors(one.words, words)
            total[name] += len(one.words)
    return {name: 100 * wrong[name] / max(total[name], 1) for name in sorted(total)}


def mean_over_corpora(rates: dict[str, float]) -> float:
    """Return the mean over the corpora, regardless of their sizes. Tuning minimises it."""
    corpora = [rate for name, rate in rates.items() if name != "all"]
    return sum(corpora) / len(corpora)
