"""What a transcript carries besides its words, judged: when they came, where they lie, how sure and stable. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamer.evaluate.hearing import Hearing
from streamer.evaluate.measures.alignment import Placed
from streamer.evaluate.measures.confidence import Judged, Reliability, reliability
from streamer.evaluate.measures.delay import Delay, Delays, delay, summary
from streamer.evaluate.measures.errors import RIGHT, aligned
from streamer.evaluate.measures.partials import Showings
from streamer.evaluate.measures.scores import ALL
from streamer.evaluate.measures.times import Offset, TimeErrors, time_errors

Alignments = Mapping[str, Sequence[Placed]]
"""Where the words of an utterance lie, by its name."""


@dataclass(frozen=True)
class WordFigures:
    """Of some utterances; None where there is nothing to tell, and of delays and times without an alignment."""

    delays: Delays | None
    delays_by_wall: Delays | None
    times: TimeErrors | None
    words: Reliability | None
    finals: Reliability | None
    showings: Showings


@dataclass(frozen=True)
class _Told:
    """Of one utterance."""

    delays: list[Delay]
    offsets: list[Offset]
    words: list[Judged]
    finals: list[Judged]
    showings: Showings


def word_figures(hearings: Sequence[Hearing], alignments: Alignments | None) -> dict[str, WordFigures]:
    """For each corpus in the order of their names, and for all, if there are several; failed sessions do not count."""
    groups: dict[str, list[_Told]] = {}
    for hearing in hearings:
        if not hearing.failure:
            places = (alignments or {}).get(hearing.utterance.name)
            groups.setdefault(hearing.utterance.corpus, []).append(_told(hearing, places))
    groups = dict(sorted(groups.items()))
    if len(groups) > 1:
        groups[ALL] = [told for group in groups.values() for told in group]
    return {name: _figures(group) for name, group in groups.items()}


def _told(hearing: Hearing, places: Sequence[Placed] | None) -> _Told:
    emissions = hearing.emissions
    right = {
        pair.hypothesis: pair.reference
        for pair in aligned(hearing.utterance.words, hearing.words)
        if pair.kind == RIGHT and pair.hypothesis is not None and pair.reference is not None
    }
    delays, offsets = [], []
    for number, reference in right.items() if places else ():
        assert places is not None
        placed, emission = places[reference], emissions[number]
        delays.append(delay(placed.end_ms, emission, round(1000 * hearing.seconds)))
        if placed.alone and emission.span:
            offsets.append(Offset(emission.span.start_ms - placed.start_ms, emission.span.end_ms - placed.end_ms))
    words = [
        Judged(emission.confidence, number in right)
        for number, emission in enumerate(emissions)
        if emission.confidence is not None
    ]
    finals, first = [], 0
    for final in hearing.finals:
        behind = first + len(final.words)
        if final.words and final.confidence is not None:
            share = sum(number in right for number in range(first, behind)) / len(final.words)
            finals.append(Judged(final.confidence, share))
        first = behind
    return _Told(delays, offsets, words, finals, hearing.showings)


def _figures(group: Sequence[_Told]) -> WordFigures:
    delays = [each for told in group for each in told.delays]
    return WordFigures(
        delays=summary(delays),
        delays_by_wall=summary(delays, wall=True),
        times=time_errors([each for told in group for each in told.offsets]),
        words=reliability([each for told in group for each in told.words]),
        finals=reliability([each for told in group for each in told.finals]),
        showings=sum((told.showings for told in group), Showings()),
    )
