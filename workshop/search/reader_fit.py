"""Fits the gate of a reader, and the confidence of its words, on one half of a set, and judges them on the other half.

Each utterance is recognised with a second pass, and with a reader whose gate is open. The weights of the gate make the
choice between both that costs the fewest word errors: logistic regression, in which an utterance weighs as much as its
difference in errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from streamer.base.events import Final as FinalEvent
from streamer.base.limits import READER, STEPS_MS
from streamer.commands.accuracy.manifest import HALVES, Utterance, half, normalise
from streamer.commands.accuracy.word_errors import RIGHT, pair_words
from streamer.engine.bundle import load_recogniser
from streamer.engine.reader.alignment import Alignment
from streamer.engine.reader.gate import Evidence, Gate
from streamer.engine.reader.reader import load_reader
from streamer.engine.reader.reader_pass import HeardSegment, ReaderPass
from streamer.engine.reader.reading import Reading
from streamer.engine.reader.segment_reader import LocalReader
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.search import HypothesisWord
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.calibration import (
    CALIBRATION_FILE,
    LEXICON,
    Calibration,
    StepCalibration,
    confidence_features,
)
from workshop.data.corpus import CorpusError
from workshop.search.calibration import evidence as fitted_evidence

_OPEN: Final = Gate(inf, 0.0, 0.0, 0.0, 0.0)
_RIDGE, _ROUNDS, _PACE = 0.02, 4000, 0.3

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReadUtterance:
    """An utterance: its evidence, the errors of both ways to read it, and the reader's words, which of them right."""

    utterance: Utterance
    evidence: Evidence
    second_errors: int
    reader_errors: int
    words: tuple[HypothesisWord, ...]
    right: tuple[bool, ...]

    @property
    def is_for_fitting(self) -> bool:
        """Whether it is of the half for fitting. A speaker is in one half only."""
        return half(self.utterance.speaker or self.utterance.name) == HALVES[0]


class _OpenPass(ReaderPass):
    """A reader pass that believes every reading, and keeps it."""

    def __init__(self, inner: ReaderPass) -> None:
        super().__init__(inner.reader, inner.aligner, _OPEN)
        self.read_segments: list[tuple[Evidence, Sequence[HypothesisWord], int]] = []  # with the number of frames

    def evidence(
        self, reading: Reading, words: Sequence[HypothesisWord], alignment: Alignment, segment: HeardSegment
    ) -> Evidence:
        """Keep the evidence for a reading, and its words."""
        found = super().evidence(reading, words, alignment, segment)
        self.read_segments.append((found, words, len(segment.phones)))
        return found


def read_all(
    utterances: Sequence[Utterance], bundle: Path, reader: Path, tell: Callable[[str], None]
) -> list[ReadUtterance]:
    """Recognise these utterances in both ways. Those that neither way recognises are left out."""
    recogniser = load_recogniser(bundle, slots=1, reader=LocalReader(load_reader(reader)), idle_limit_s=inf)
    assert recogniser.reader_pass is not None
    recogniser.reader_pass = kept = _OpenPass(recogniser.reader_pass)
    results: list[ReadUtterance] = []
    for number, utterance in enumerate(utterances, 1):
        samples = utterance.samples()
        second = _spoken(_finals(recogniser, samples, {"second_pass": True}))
        kept.read_segments.clear()
        by_reader = _spoken(_finals(recogniser, samples, {"second_pass": True, READER: True}))
        words = tuple(word for _, own, _ in kept.read_segments for word in own)
        if words:
            evidence = _mean_evidence(kept.read_segments)
            pairs = pair_words(list(utterance.words), normalise(" ".join(word.text for word in words)))
            right = {pair.hypothesis for pair in pairs if pair.kind == RIGHT}
            errors = (_errors(utterance, second), _errors(utterance, by_reader))
            results.append(
                ReadUtterance(utterance, evidence, *errors, words, tuple(n in right for n in range(len(words))))
            )
        if not number % 50:
            tell(f"{number} of {len(utterances)} utterances")
    return results


def fitted_gate(read: Sequence[ReadUtterance]) -> Gate:
    """Return the gate with the fewest errors in these utterances. CorpusError if both ways always have as many."""
    differing = [one for one in read if one.second_errors != one.reader_errors]
    if not differing:
        raise CorpusError("the gate needs recordings in which the second pass and the reader have different errors")
    gains = np.array([one.second_errors - one.reader_errors for one in differing], dtype=np.float64)
    names = [field.name for field in fields(Evidence)]
    signs = np.array([[getattr(one.evidence, name) for name in names] for one in differing])
    mean, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    inputs = np.column_stack([np.ones(len(signs)), (signs - mean) / spread])
    weights = np.zeros(inputs.shape[1])
    ridge = np.full(len(weights), _RIDGE)
    ridge[0] = 0.0
    for _ in range(_ROUNDS):
        doubt = 1 / (1 + np.exp(np.sign(gains) * (inputs @ weights)))
        slope = (inputs * (gains * doubt)[:, None]).sum(axis=0) / np.abs(gains).sum() - ridge * weights
        weights = weights + _PACE * slope
    scaled = weights[1:] / spread
    return Gate(round(float(weights[0] - scaled @ mean), 2), *(round(float(weight), 2) for weight in scaled))


def fitted_calibration(read: Sequence[ReadUtterance], calibration: Calibration) -> Calibration:
    """Return the calibration with the confidence of the reader's words. Their times are those of the first pass."""
    signs = np.array([confidence_features(word) for one in read for word in one.words])
    right = np.array([right for one in read for right in one.right], dtype=np.float64)
    weights, former = fitted_evidence(signs, right), calibration.fits[LEXICON]
    ends = {step: calibration.fits.get(READER, former)[step].end_ms for step in STEPS_MS}
    by_step = {step: StepCalibration(former[step].start_ms, ends[step], weights) for step in STEPS_MS}
    return replace(calibration, fits={**calibration.fits, READER: by_step})


def table(read: Sequence[ReadUtterance], gate: Gate) -> Iterator[str]:
    """Yield a line for each corpus: word errors in percent by the second pass, the reader, and both gates."""
    yield f"{'corpus':32} {'second pass':>12} {'reader':>8} {'with gate':>10} {'at best':>8} {'believed':>9}"
    for corpus in sorted({one.utterance.corpus for one in read}):
        own = [one for one in read if one.utterance.corpus == corpus]
        total = sum(len(one.utterance.words) for one in own)
        believed = [gate.score(one.evidence) > 0 for one in own]
        chosen = [one.reader_errors if yes else one.second_errors for one, yes in zip(own, believed, strict=True)]
        sums = (
            sum(one.second_errors for one in own),
            sum(one.reader_errors for one in own),
            sum(chosen),
            sum(min(one.second_errors, one.reader_errors) for one in own),
        )
        second, alone, gated, best = (100 * each / max(1, total) for each in sums)
        share = sum(believed) / len(own)
        yield f"{corpus:32} {second:12.1f} {alone:8.1f} {gated:10.1f} {best:8.1f} {share:9.2f}"


def calibrated(bundle: Path) -> Calibration:
    """Return the calibration of a bundle."""
    return Calibration.load(bundle / CALIBRATION_FILE)


def _finals(recogniser: Recogniser, samples: npt.NDArray[np.int16], options: dict[str, object]) -> list[FinalEvent]:
    step = recogniser.model.sample_rate * 320 // 1000
    recogniser.open(1, StreamOptions.from_dict(options, recogniser.model.step_ms, list(recogniser.searches)))
    events: list[FinalEvent] = []
    for start in range(0, len(samples), step):
        chunk = Chunk(1, samples[start : start + step], end=start + step >= len(samples))
        for _, answer in recogniser.step([chunk]):
            if isinstance(answer, StreamError):
                raise answer
            events += [event for event in answer if isinstance(event, FinalEvent)]
    return events


def _spoken(finals: Sequence[FinalEvent]) -> list[str]:
    return normalise(" ".join(final.text for final in finals))


def _errors(utterance: Utterance, words: Sequence[str]) -> int:
    return sum(pair.kind != RIGHT for pair in pair_words(list(utterance.words), words))


def _mean_evidence(segments: Sequence[tuple[Evidence, Sequence[HypothesisWord], int]]) -> Evidence:
    """Return the evidence of an utterance: that of its segments, by their length."""
    frames = sum(length for _, _, length in segments)
    return Evidence(
        *(
            sum(getattr(evidence, field.name) * length for evidence, _, length in segments) / frames
            for field in fields(Evidence)
        )
    )
