"""Compares hypotheses with references, counts errors by kind and corpus, and says how far a rate would move. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from streamer.base.text import joined
from streamer.commands.accuracy.manifest import Utterance

RIGHT: Final = "right"
SUBSTITUTED: Final = "substituted"
DELETED: Final = "deleted"
INSERTED: Final = "inserted"

_KINDS: Final = {"equal": RIGHT, "replace": SUBSTITUTED, "delete": DELETED, "insert": INSERTED}


@dataclass(frozen=True)
class WordPair:
    """A pair of words: their positions in the reference and in the hypothesis, None where a word is missing."""

    kind: str
    reference: int | None
    hypothesis: int | None


@dataclass(frozen=True)
class ErrorCounts:
    """Error counts, which can be added up."""

    words: int = 0
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    characters: int = 0
    character_errors: int = 0

    @property
    def word_errors(self) -> int:
        """The number of word errors of all kinds."""
        return self.substitutions + self.insertions + self.deletions

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(*(mine + theirs for mine, theirs in zip(self.counts(), other.counts(), strict=True)))

    def counts(self) -> tuple[int, ...]:
        """Return the counts in the order of the fields."""
        return (
            self.words,
            self.substitutions,
            self.insertions,
            self.deletions,
            self.characters,
            self.character_errors,
        )


def pair_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[WordPair]:
    """Return the words of both in pairs, with as few errors as possible."""
    pairs = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        references = range(step.src_start, step.src_end)
        hypotheses = range(step.dest_start, step.dest_end)
        for index in range(max(len(references), len(hypotheses))):
            pairs.append(
                WordPair(
                    _KINDS[step.tag],
                    references[index] if index < len(references) else None,
                    hypotheses[index] if index < len(hypotheses) else None,
                )
            )
    return pairs


def count_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorCounts:
    """Return the errors of one utterance. Characters are those of the words and of the spaces between them."""
    kinds = [pair.kind for pair in pair_words(reference, hypothesis)]
    letters = joined(reference)
    return ErrorCounts(
        words=len(reference),
        substitutions=kinds.count(SUBSTITUTED),
        insertions=kinds.count(INSERTED),
        deletions=kinds.count(DELETED),
        characters=len(letters),
        character_errors=Levenshtein.distance(letters, joined(hypothesis)),
    )


# Scores utterances, and computes error rates by corpus and overall.

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


@dataclass(frozen=True)
class CorpusDifference:
    """How far the word errors of one way to recognise a corpus differ from those of another way."""

    name: str
    errors: int  # how many more words are wrong
    points: Interval  # the difference of the rates
    relative: Interval  # the difference in errors, as a part of the errors of the other way
    drawn: str


def corpus_differences(first: Sequence[ScoredUtterance], other: Sequence[ScoredUtterance]) -> list[CorpusDifference]:
    """Return how `other` differs from `first` in each corpus, in the order of names, then in all of them.

    Both have the same utterances in the same order. Every resample draws the same ones of both: what makes an utterance
    hard for both ways says nothing about their difference.
    """
    samples = []
    for firsts, others in zip(by_corpus(first).values(), by_corpus(other).values(), strict=True):
        pairs = zip(firsts, others, strict=True)
        counts = [(one.errors.words, one.errors.word_errors, two.errors.word_errors) for one, two in pairs]
        speakers = [result.utterance.speaker for result in firsts]
        samples.append(CorpusSample(firsts[0].utterance.corpus, np.array(counts, dtype=np.float64), speakers))
    lines = [_difference(sample.corpus, [sample]) for sample in samples]
    return lines if len(lines) == 1 else [*lines, _difference(ALL, samples)]


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


def rates_as_dict(line: CorpusRates) -> dict[str, object]:
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


def differences_as_dict(lines: Sequence[CorpusDifference]) -> dict[str, object]:
    """Return differences as JSON values. A single corpus stands under its name and as `all`."""
    values = {
        line.name: {
            "word_errors": line.errors,
            "points": percent(line.points),
            "relative": percent(line.relative),
            "drawn": line.drawn,
        }
        for line in lines
    }
    everything = values.pop(ALL, None) or next(iter(values.values()))
    return {"all": everything, "corpora": values}


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
    return CorpusRates(
        name=name,
        utterances=len(results),
        speakers=len({(r.utterance.corpus, r.utterance.speaker) for r in results if r.utterance.speaker is not None}),
        failed=sum(bool(result.failure) for result in results),
        errors=sum((result.errors for result in results), ErrorCounts()),
        wer=interval(samples, _wer),
        cer=interval(samples, _cer),
        drawn=_drawn(samples),
    )


def _difference(name: str, samples: Sequence[CorpusSample]) -> CorpusDifference:
    errors = sum(int((sample.counts[:, 2] - sample.counts[:, 1]).sum()) for sample in samples)
    return CorpusDifference(name, errors, interval(samples, _points), interval(samples, _relative), _drawn(samples))


def _drawn(samples: Sequence[CorpusSample]) -> str:
    units = {"speakers" if draws_speakers(sample.speakers) else "utterances" for sample in samples}
    return " and ".join(sorted(units))


def _wer(sums: Counts) -> Counts:
    rates: Counts = sums[:, 1:4].sum(axis=1) / sums[:, 0]
    return rates


def _cer(sums: Counts) -> Counts:
    rates: Counts = sums[:, 5] / sums[:, 4]
    return rates


def _points(sums: Counts) -> Counts:
    points: Counts = (sums[:, 2] - sums[:, 1]) / sums[:, 0]
    return points


def _relative(sums: Counts) -> Counts:
    # Where the first way makes no error, half an error is assumed, because a ratio to zero does not exist.
    ratios: Counts = (sums[:, 2] - sums[:, 1]) / np.maximum(sums[:, 1], 0.5)
    return ratios


# Computes bootstrap intervals: how far a rate would move with other speakers or sentences. The draws are fixed.

RESAMPLES: Final = 2000
INTERVAL_PERCENT: Final = 95
# With fewer speakers than this, utterances are drawn instead: so few speakers do not represent others.
FEWEST_SPEAKERS: Final = 10

_SEED: Final = 20
Counts = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A figure with the bounds of its 95 % interval. They are None if there are fewer than two units to draw from."""

    value: float
    low: float | None
    high: float | None


class CorpusSample(NamedTuple):
    """The data of one corpus: a row of counts for each utterance, and its speaker (None if unknown)."""

    corpus: str
    counts: Counts
    speakers: Sequence[str | None]


def draws_speakers(speakers: Sequence[str | None]) -> bool:
    """Return whether to draw speakers instead of utterances."""
    return len({speaker for speaker in speakers if speaker is not None}) >= FEWEST_SPEAKERS


def interval(samples: Sequence[CorpusSample], figure: Callable[[Counts], Counts]) -> Interval:
    """Return a figure over the sums of all counts, with its interval. Each corpus is drawn from separately.

    `figure` takes sums [n, columns] and gives n values.
    """
    total = sum((sample.counts.sum(axis=0) for sample in samples), np.zeros(()))
    value = float(figure(total[None])[0])
    clusters = [_clusters(sample) for sample in samples]
    if max(map(len, clusters)) < 2:
        return Interval(value, None, None)
    draws = sum((_resample(each, s.corpus) for each, s in zip(clusters, samples, strict=True)), np.zeros(()))
    tail = (100 - INTERVAL_PERCENT) / 2
    low, high = np.percentile(figure(draws), [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def _resample(clusters: Counts, corpus: str) -> Counts:
    """Return the sums of every resample: [resamples, columns]."""
    # Seeded by the name of the corpus, so its interval does not depend on the other corpora.
    generator = np.random.default_rng([_SEED, zlib.crc32(corpus.encode())])
    draws = generator.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), size=RESAMPLES)
    sums: Counts = draws @ clusters
    return sums


def _clusters(sample: CorpusSample) -> Counts:
    """Return a row of counts for each unit that is drawn: a speaker with all utterances, or an utterance."""
    if not draws_speakers(sample.speakers):
        return sample.counts
    numbers: dict[object, int] = {}
    # An utterance without a known speaker counts as a speaker of its own.
    owners = [
        numbers.setdefault(index if speaker is None else speaker, len(numbers))
        for index, speaker in enumerate(sample.speakers)
    ]
    sums = np.zeros((len(numbers), sample.counts.shape[1]))
    np.add.at(sums, owners, sample.counts)
    return sums
