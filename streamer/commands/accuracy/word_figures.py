"""Measures the delays, confidences and stability of words, and their times against those of an external aligner."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from streamer.commands.accuracy.manifest import ManifestError, Utterance, normalise
from streamer.commands.accuracy.results import PartialCounts, TimedWord, TimePoint, UtteranceResult
from streamer.commands.accuracy.word_errors import ALL, RIGHT, pair_words

# Reads the times of the words of the references, from an external aligner.

CTM_COLUMNS = (5, 6)  # the last one is a confidence


class AlignedWord(NamedTuple):
    """A normalised word of a reference and its times. `alone`: it is a single word for the aligner too."""

    word: str
    start_ms: int
    end_ms: int
    alone: bool = True


def read_alignment(path: Path, utterances: Sequence[Utterance]) -> dict[str, list[AlignedWord]]:
    """Return the aligned words by utterance, for the utterances whose aligned words are those of the reference."""
    try:
        with path.open(encoding="utf-8") as stream:
            lines = [(number, line) for number, line in enumerate(stream, start=1) if line.strip()]
    except OSError as error:
        raise ManifestError(f"the alignment {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"the alignment {path} is not text in UTF-8: {error}.") from error
    read = _json_line if lines and lines[0][1].lstrip().startswith("{") else _ctm_line
    alignments: dict[str, list[AlignedWord]] = {}
    for number, line in lines:
        try:
            name, words = read(line)
        except (ValueError, KeyError, TypeError):
            raise ManifestError(
                f"{path}, line {number}, is neither JSON with 'name' and 'words' nor a line of CTM."
            ) from None
        alignments.setdefault(name, []).extend(words)
    if not any(utterance.name in alignments for utterance in utterances):
        example = f"'{next(iter(alignments))}'" if alignments else "nothing at all"
        raise ManifestError(
            f"{path} holds no utterance of the manifest: it has {example}, the manifest '{utterances[0].name}'."
        )
    return {
        utterance.name: alignments[utterance.name]
        for utterance in utterances
        if tuple(word.word for word in alignments.get(utterance.name, ())) == utterance.words
    }


def _json_line(line: str) -> tuple[str, list[AlignedWord]]:
    content: dict[str, Any] = json.loads(line)
    if not content.get("aligned", True):
        return str(content["name"]), []
    aligned = [_aligned_words(word, start, start + length) for word, start, length in content["words"]]
    return str(content["name"]), [word for words in aligned for word in words]


def _ctm_line(line: str) -> tuple[str, list[AlignedWord]]:
    columns = line.split()
    if len(columns) not in CTM_COLUMNS:
        raise ValueError(line)
    name, _, start, length, word = columns[:5]
    return name, list(_aligned_words(word, round(1000 * float(start)), round(1000 * (float(start) + float(length)))))


def _aligned_words(word: str, start_ms: int, end_ms: int) -> Iterator[AlignedWord]:
    """Return our words for one word of the aligner. All of them get its times."""
    parts = normalise(word)
    return (AlignedWord(part, int(start_ms), int(end_ms), len(parts) == 1) for part in parts)


ReferenceAlignments = Mapping[str, Sequence[AlignedWord]]
"""The aligned words of utterances, by the name of the utterance."""


@dataclass(frozen=True)
class WordFigures:
    """The figures of some utterances. None if there is nothing to measure; delays and times need an alignment."""

    delays: DelaySummary | None
    delays_by_wall: DelaySummary | None
    times: TimeErrors | None
    words: Reliability | None
    finals: Reliability | None
    partials: PartialCounts


@dataclass(frozen=True)
class _UtteranceFigures:
    """The measurements of one utterance."""

    delays: list[WordDelay]
    offsets: list[TimeOffset]
    words: list[JudgedConfidence]
    finals: list[JudgedConfidence]
    partials: PartialCounts


def word_figures(results: Sequence[UtteranceResult], alignments: ReferenceAlignments | None) -> dict[str, WordFigures]:
    """Return the figures by corpus in the order of names, then of all if several. Failed sessions do not count."""
    groups: dict[str, list[_UtteranceFigures]] = {}
    for result in results:
        if not result.failure:
            alignment = (alignments or {}).get(result.utterance.name)
            groups.setdefault(result.utterance.corpus, []).append(_utterance_figures(result, alignment))
    groups = dict(sorted(groups.items()))
    if len(groups) > 1:
        groups[ALL] = [one for group in groups.values() for one in group]
    return {name: _figures(group) for name, group in groups.items()}


def _utterance_figures(result: UtteranceResult, alignment: Sequence[AlignedWord] | None) -> _UtteranceFigures:
    words_found = result.timed_words
    right = {
        pair.hypothesis: pair.reference
        for pair in pair_words(result.utterance.words, result.words)
        if pair.kind == RIGHT and pair.hypothesis is not None and pair.reference is not None
    }
    delays, offsets = [], []
    for number, reference in right.items() if alignment else ():
        assert alignment is not None
        aligned, word = alignment[reference], words_found[number]
        delays.append(word_delay(aligned.end_ms, word, round(1000 * result.seconds)))
        if aligned.alone and word.span:
            offsets.append(TimeOffset(word.span.start_ms - aligned.start_ms, word.span.end_ms - aligned.end_ms))
    words = [
        JudgedConfidence(word.confidence, number in right)
        for number, word in enumerate(words_found)
        if word.confidence is not None
    ]
    finals, first = [], 0
    for final in result.finals:
        end = first + len(final.words)
        if final.words and final.confidence is not None:
            share = sum(number in right for number in range(first, end)) / len(final.words)
            finals.append(JudgedConfidence(final.confidence, share))
        first = end
    return _UtteranceFigures(delays, offsets, words, finals, result.partials)


def _figures(group: Sequence[_UtteranceFigures]) -> WordFigures:
    delays = [each for one in group for each in one.delays]
    return WordFigures(
        delays=summarise_delays(delays),
        delays_by_wall=summarise_delays(delays, wall=True),
        times=time_errors([each for one in group for each in one.offsets]),
        words=reliability([each for one in group for each in one.words]),
        finals=reliability([each for one in group for each in one.finals]),
        partials=sum((one.partials for one in group), PartialCounts()),
    )


# Measures whether confidences are right: of ten words with a confidence of 80 %, eight should be correct.

BINS: Final = 10


class JudgedConfidence(NamedTuple):
    """The confidence of a word or final, and the part of it that is right; for a word that is 0 or 1."""

    confidence: float
    right: float


class ReliabilityBin(NamedTuple):
    """The means of words or finals with about the same confidence."""

    number: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """Confidence against truth, in bins of equal size in ascending order of confidence."""

    number: int
    confidence: float  # the mean
    right: float  # the mean
    error: float  # expected calibration error: the mean distance between the two over the bins
    ranking: float  # how often something right has more confidence than something wrong; 0.5 is chance
    bins: tuple[ReliabilityBin, ...]


def reliability(judged: Sequence[JudgedConfidence]) -> Reliability | None:
    """Return the reliability of these confidences, None if there are none."""
    if not judged:
        return None
    values = np.array(sorted(judged))
    bins = [
        ReliabilityBin(len(part), float(part[:, 0].mean()), float(part[:, 1].mean()))
        for part in np.array_split(values, BINS)
        if len(part)
    ]
    return Reliability(
        number=len(values),
        confidence=float(values[:, 0].mean()),
        right=float(values[:, 1].mean()),
        error=sum(each.number * abs(each.confidence - each.right) for each in bins) / len(values),
        ranking=_ranking(values[:, 0], values[:, 1] >= 1),
        bins=tuple(bins),
    )


def _ranking(
    confidences: np.ndarray[tuple[int], np.dtype[np.float64]], right: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> float:
    """Return the area under the ROC curve. Equal confidences count half."""
    good, bad = confidences[right], np.sort(confidences[~right])
    if not len(good) or not len(bad):
        return float("nan")
    below, upto = np.searchsorted(bad, good), np.searchsorted(bad, good, side="right")
    return float((below + upto).mean() / (2 * len(bad)))


# Compares the times of recognised words with those of an alignment.


class TimeOffset(NamedTuple):
    """How much later than in the alignment a word starts and ends, in milliseconds."""

    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class ErrorSpread:
    """The median and 90th percentile of the absolute errors, and the median with its sign."""

    median: float
    p90: float
    signed: float


@dataclass(frozen=True)
class TimeErrors:
    """The time errors of the words that were recognised correctly."""

    words: int
    start: ErrorSpread
    end: ErrorSpread


def time_errors(offsets: Sequence[TimeOffset]) -> TimeErrors | None:
    """Return the time errors of these words, None if there are none."""
    if not offsets:
        return None
    starts, ends = zip(*offsets, strict=True)
    return TimeErrors(len(offsets), _spread(starts), _spread(ends))


def _spread(values: Sequence[float]) -> ErrorSpread:
    sizes = np.abs(values)
    return ErrorSpread(float(np.median(sizes)), float(np.percentile(sizes, 90)), float(np.median(values)))


# Measures how long after its end a word was shown, stable and final.


class WordDelay(NamedTuple):
    """The delays of one word. `at_end`: it was shown only because the audio was over."""

    shown: TimePoint
    stable: TimePoint
    final: TimePoint
    at_end: bool


@dataclass(frozen=True)
class DelaySummary:
    """The delays of many words: medians and 90th percentiles in milliseconds."""

    words: int
    at_end: int
    shown: tuple[float, float]
    stable: tuple[float, float]
    final: tuple[float, float]


def word_delay(end_ms: int, word: TimedWord, audio_ms: int) -> WordDelay:
    """Return the delays of a word that ends at `end_ms`, in a recording of `audio_ms`."""
    times = (word.shown, word.stable, word.final)
    shown, stable, final = (TimePoint(time.audio_ms - end_ms, time.wall_ms - end_ms) for time in times)
    return WordDelay(shown, stable, final, word.shown.audio_ms >= audio_ms)


def summarise_delays(delays: Sequence[WordDelay], *, wall: bool = False) -> DelaySummary | None:
    """Return the summary by the audio clock or the wall clock, None if there are no delays."""
    if not delays:
        return None
    return DelaySummary(
        words=len(delays),
        at_end=sum(each.at_end for each in delays),
        shown=_delay_spread([each.shown[wall] for each in delays]),
        stable=_delay_spread([each.stable[wall] for each in delays]),
        final=_delay_spread([each.final[wall] for each in delays]),
    )


def _delay_spread(values: Sequence[float]) -> tuple[float, float]:
    return float(np.percentile(values, 50)), float(np.percentile(values, 90))
