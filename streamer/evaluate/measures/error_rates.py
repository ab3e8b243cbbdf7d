"""Scores utterances, and computes error rates by corpus and overall. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streamer.evaluate.manifest import Utterance
from streamer.evaluate.measures.bootstrap import CorpusSample, Counts, Interval, draws_speakers, interval
from streamer.evaluate.measures.word_errors import ErrorCounts, count_errors

ALL: Final = "all"
_FIELDS: Final = ("words", "substitutions", "insertions", "deletions", "characters", "character_errors")


@dataclass(frozen=True)
class ScoredUtterance:
    """An utterance with its normalised hypothesis and its errors. `failure` says why if its session failed."""

    utterance: Utterance
    hypothesis: tuple[str, ...]
    errors: ErrorCounts
    failure: str = ""


@dataclass(frozen=True)
class CorpusRates:
    """The rates of one corpus or of all of them: one line of the report."""

    name: str
    utterances: int
    speakers: int
    failed: int
    errors: ErrorCounts
    wer: Interval
    cer: Interval
    drawn: str  # the units from which the intervals were drawn


def score_utterance(utterance: Utterance, hypothesis: Sequence[str], failure: str = "") -> ScoredUtterance:
    """Count the errors of an utterance. Words that are missing because of a failure count as errors."""
    return ScoredUtterance(utterance, tuple(hypothesis), count_errors(utterance.words, hypothesis), failure)


def corpus_rates(results: Sequence[ScoredUtterance]) -> list[CorpusRates]:
    """Return the rates of each corpus in the order of names, then of all of them if there are several."""
    groups = by_corpus(results)
    lines = [_rates(name, [group]) for name, group in groups.items()]
    return lines if len(lines) == 1 else [*lines, _rates(ALL, list(groups.values()))]


def by_corpus(results: Iterable[ScoredUtterance]) -> dict[str, list[ScoredUtterance]]:
    """Return the results by corpus, in the order of names."""
    groups: dict[str, list[ScoredUtterance]] = {}
    for result in results:
        groups.setdefault(result.utterance.corpus, []).append(result)
    return dict(sorted(groups.items()))


def worst(results: Sequence[ScoredUtterance], number: int) -> list[ScoredUtterance]:
    """Return the utterances with the most word errors, shorter ones first if equal."""
    with_errors = [result for result in results if result.errors.word_errors]
    return sorted(with_errors, key=lambda result: (-result.errors.word_errors, result.errors.words))[:number]


def rates_as_dict(line: CorpusRates) -> dict[str, Any]:
    """Return the rates as JSON values."""
    return {
        "utterances": line.utterances,
        "speakers": line.speakers,
        "failed": line.failed,
        **dict(zip(_FIELDS, line.errors.counts(), strict=True)),
        "wer": percent(line.wer),
        "cer": percent(line.cer),
        "drawn": line.drawn,
    }


def percent(bounds: Interval) -> dict[str, float | None]:
    """Return an interval in percent, rounded to hundredths."""
    return {name: None if value is None else round(100 * value, 2) for name, value in bounds._asdict().items()}


def _rates(name: str, groups: Sequence[Sequence[ScoredUtterance]]) -> CorpusRates:
    results = [result for group in groups for result in group]
    samples = [
        CorpusSample(
            group[0].utterance.corpus,
            np.array([result.errors.counts() for result in group], dtype=np.float64),
            [result.utterance.speaker for result in group],
        )
        for group in groups
    ]
    drawn = {"speakers" if draws_speakers(sample.speakers) else "utterances" for sample in samples}
    return CorpusRates(
        name=name,
        utterances=len(results),
        speakers=len({(r.utterance.corpus, r.utterance.speaker) for r in results if r.utterance.speaker is not None}),
        failed=sum(bool(result.failure) for result in results),
        errors=sum((result.errors for result in results), ErrorCounts()),
        wer=interval(samples, _wer),
        cer=interval(samples, _cer),
        drawn=" and ".join(sorted(drawn)),
    )


def _wer(sums: Counts) -> Counts:
    rates: Counts = sums[:, 1:4].sum(axis=1) / sums[:, 0]
    return rates


def _cer(sums: Counts) -> Counts:
    rates: Counts = sums[:, 5] / sums[:, 4]
    return rates
