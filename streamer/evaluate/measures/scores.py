"""What came of the utterances of a manifest, and the rates over them by corpus and in all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streamer.evaluate.manifest import Utterance
from streamer.evaluate.measures.bootstrap import Counts, Interval, Sample, by_speaker, interval
from streamer.evaluate.measures.errors import Errors, count

ALL: Final = "all"
_FIELDS: Final = ("words", "substitutions", "insertions", "deletions", "characters", "character_errors")


@dataclass(frozen=True)
class Scored:
    """One utterance with what was understood of it, normalised; `failure` says why if its session failed."""

    utterance: Utterance
    hypothesis: tuple[str, ...]
    errors: Errors
    failure: str = ""


@dataclass(frozen=True)
class Rates:
    """One line of the report: a corpus, or all of them."""

    name: str
    utterances: int
    speakers: int
    failed: int
    errors: Errors
    wer: Interval
    cer: Interval
    drawn: str  # what the intervals were drawn from


def scored(utterance: Utterance, hypothesis: Sequence[str], failure: str = "") -> Scored:
    """Counts the errors. What a failed session did not say is an error too: a failure must not improve a rate."""
    return Scored(utterance, tuple(hypothesis), count(utterance.words, hypothesis), failure)


def rates(results: Sequence[Scored]) -> list[Rates]:
    """A line for each corpus in the order of their names, then one for all, if there are several."""
    groups = by_corpus(results)
    lines = [_rates(name, [group]) for name, group in groups.items()]
    return lines if len(lines) == 1 else [*lines, _rates(ALL, list(groups.values()))]


def by_corpus(results: Iterable[Scored]) -> dict[str, list[Scored]]:
    """The results of each corpus, in the order of the corpora's names."""
    groups: dict[str, list[Scored]] = {}
    for result in results:
        groups.setdefault(result.utterance.corpus, []).append(result)
    return dict(sorted(groups.items()))


def worst(results: Sequence[Scored], number: int) -> list[Scored]:
    """Those that cost the most words, of equal ones the shorter first."""
    wrong = [result for result in results if result.errors.word_errors]
    return sorted(wrong, key=lambda result: (-result.errors.word_errors, result.errors.words))[:number]


def as_dict(line: Rates) -> dict[str, Any]:
    """A line of the report for a program."""
    return {
        "utterances": line.utterances,
        "speakers": line.speakers,
        "failed": line.failed,
        **dict(zip(_FIELDS, line.errors.counts(), strict=True)),
        "wer": percent(line.wer),
        "cer": percent(line.cer),
        "drawn": line.drawn,
    }


def percent(found: Interval) -> dict[str, float | None]:
    """An interval in percent, rounded to hundredths."""
    return {name: None if value is None else round(100 * value, 2) for name, value in found._asdict().items()}


def _rates(name: str, groups: Sequence[Sequence[Scored]]) -> Rates:
    results = [result for group in groups for result in group]
    samples = [
        Sample(
            group[0].utterance.corpus,
            np.array([result.errors.counts() for result in group], dtype=np.float64),
            [result.utterance.speaker for result in group],
        )
        for group in groups
    ]
    drawn = {"speakers" if by_speaker(sample.speakers) else "utterances" for sample in samples}
    return Rates(
        name=name,
        utterances=len(results),
        speakers=len({(r.utterance.corpus, r.utterance.speaker) for r in results if r.utterance.speaker is not None}),
        failed=sum(bool(result.failure) for result in results),
        errors=sum((result.errors for result in results), Errors()),
        wer=interval(samples, _wer),
        cer=interval(samples, _cer),
        drawn=" and ".join(sorted(drawn)),
    )


def _wer(sums: Counts) -> Counts:
    found: Counts = sums[:, 1:4].sum(axis=1) / sums[:, 0]
    return found


def _cer(sums: Counts) -> Counts:
    found: Counts = sums[:, 5] / sums[:, 4]
    return found
