"""Measures the delays, times, confidences and stability of the words of transcripts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamer.evaluate.measures.confidence import JudgedConfidence, Reliability, reliability
from streamer.evaluate.measures.error_rates import ALL
from streamer.evaluate.measures.partial_stability import PartialCounts
from streamer.evaluate.measures.reference_alignment import AlignedWord
from streamer.evaluate.measures.time_errors import TimeErrors, TimeOffset, time_errors
from streamer.evaluate.measures.word_delays import DelaySummary, WordDelay, summarise_delays, word_delay
from streamer.evaluate.measures.word_errors import RIGHT, pair_words
from streamer.evaluate.results import UtteranceResult

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
