"""Measures labels by several witnesses on speech whose texts are known: how much is kept, and how much is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamer.commands.accuracy.manifest import Utterance
from streamer.commands.accuracy.report import rate_text
from streamer.commands.accuracy.word_errors import ALL, CorpusSample, Counts, count_errors, interval
from streamer.commands.accuracy.word_sections import table
from workshop.labelling.agreement import Limits, Verdict
from workshop.labelling.folder_labels import Judge, Recording
from workshop.labelling.reading_journal import HeardPiece, Journal

MEASURED: Final = (
    *(Limits(different=share) for share in (0.0, 0.05, 0.1, 0.2, 1.0)),
    *(Limits(different=share, surer_than=-0.1) for share in (0.1, 0.2)),
)


def recordings_of(utterances: Sequence[Utterance]) -> list[Recording]:
    """Return the utterances of a manifest as recordings without text."""
    return [Recording(each.name, each.samples) for each in utterances]


@dataclass(frozen=True)
class Precision:
    """The words of an utterance: all, those that are kept, and the wrong ones among these."""

    words: int
    kept: int
    wrong: int


def precision_of(utterance: Utterance, pieces: Sequence[HeardPiece], judge: Judge) -> Precision:
    """Compare the labels of an utterance with its text. It is kept if all of its pieces are."""
    words = len(utterance.words)
    if not pieces or any(judge.verdict(one) is not Verdict.KEPT for one in pieces):
        return Precision(words, 0, 0)
    heard = [word for one in pieces for word in one.heard[0].words]
    return Precision(words, words, count_errors(utterance.words, heard).word_errors)


def precision_table(
    utterances: Sequence[Utterance], journal: Journal, witnesses: Sequence[str], knows: Callable[[str], bool]
) -> str:
    """Return a table: which words are kept and how many of them are wrong, by what is kept and by corpus.

    With three witnesses or more, the first two of them are also measured without the others.
    """
    first, others = witnesses[0], len(witnesses) - 1
    ways = [(f"{first} and {witnesses[1]}", 2, 1)]
    if others > 1:
        ways += [(f"{first} and {number} of {others}", len(witnesses), number) for number in range(1, others + 1)]
    corpora = sorted({each.corpus for each in utterances})
    header = ["", *(f"{corpus}: kept %, wrong %" for corpus in [*corpora, ALL])]
    rows = []
    for named, number, agreeing in ways:
        for limits in MEASURED:
            judge = Judge(replace(limits, agreeing=agreeing), knows)
            samples = [_sample(corpus, utterances, journal, judge, number) for corpus in corpora]
            sure = f", surer than {limits.surer_than}" if math.isfinite(limits.surer_than) else ""
            cells = [_cell([sample]) for sample in samples] + [_cell(samples)]
            rows.append([f"{named}, {100 * limits.different:.0f} %{sure}", *cells])
    return table(header, rows)


def _sample(
    corpus: str, utterances: Sequence[Utterance], journal: Journal, judge: Judge, witnesses: int
) -> CorpusSample:
    own = [each for each in utterances if each.corpus == corpus]
    counts = []
    for utterance in own:
        pieces = [replace(one, heard=one.heard[:witnesses]) for one in journal.of(utterance.name).pieces]
        found = precision_of(utterance, pieces, judge)
        counts.append((found.words, found.kept, found.wrong))
    return CorpusSample(corpus, np.array(counts, np.float64), [each.speaker for each in own])


def _cell(samples: Sequence[CorpusSample]) -> str:
    return f"{rate_text(interval(samples, _kept))}, {rate_text(interval(samples, _wrong))}"


def _kept(sums: Counts) -> Counts:
    shares: Counts = sums[:, 1] / sums[:, 0]
    return shares


def _wrong(sums: Counts) -> Counts:
    # Nothing is wrong where nothing is kept.
    shares: Counts = sums[:, 2] / np.maximum(sums[:, 1], 1.0)
    return shares
