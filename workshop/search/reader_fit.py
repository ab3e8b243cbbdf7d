"""Fits the mixture of a reader and the recogniser, and the confidence of their words, and judges both.

Each utterance is read by the second pass and by a reader. Wherever both differ, taking the words of the recogniser
saves or costs some errors. The weights of the mixture make the choices that cost the fewest: logistic regression, in
which a difference weighs as much as its errors. Halves of the speakers are used in turn, one to fit and the other one
to judge, so that no figure comes from speakers that the weights have seen.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.base.events import Final as FinalEvent
from streamer.base.limits import READER, WHOLE_MS
from streamer.commands.accuracy.manifest import HALVES, Utterance, half, normalise
from streamer.commands.accuracy.word_errors import RIGHT, pair_words
from streamer.engine.bundle import load_recogniser
from streamer.engine.reader.combination import READER_FILE, Evidence, Mixture, Mixtures
from streamer.engine.reader.reader import load_reader
from streamer.engine.reader.reader_pass import Compared, HeardSegment, ReaderPass
from streamer.engine.reader.reading import Reading, ReadingOptions
from streamer.engine.reader.segment_reader import LocalReader, PendingReading, ReaderError
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
from streamer.engine.waiting import Work, finish
from workshop.data.corpus import CorpusError
from workshop.search.calibration import evidence as fitted_evidence

_RIDGE, _ROUNDS = 0.02, 60

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReadSegment:
    """A segment: its reading beside the words of the first pass, and its words in the second pass.

    `compared` is None if the reading cannot be used.
    """

    reading: Reading
    heard: HeardSegment
    compared: Compared | None
    second: tuple[str, ...] = ()

    def texts(self, mixture: Mixture | None) -> list[str]:
        """Return the words with this mixture; those of the reader without one."""
        if self.compared is None:
            return list(self.second)
        choices = self.compared.choices
        taken = {n for n, choice in enumerate(choices) if mixture and mixture.score(choice.evidence) > 0}
        return list(self.second) if taken and len(taken) == len(choices) else self.compared.texts(taken)


@dataclass(frozen=True)
class ReadUtterance:
    """An utterance with its segments."""

    utterance: Utterance
    segments: tuple[ReadSegment, ...]

    @property
    def half(self) -> str:
        """The half to which it belongs. A speaker is in one half only."""
        return half(self.utterance.speaker or self.utterance.name)

    @cached_property
    def second_errors(self) -> int:
        """The errors of the second pass."""
        return self._errors([text for segment in self.segments for text in segment.second])

    @cached_property
    def reader_errors(self) -> int:
        """The errors of the reader."""
        return self.errors(None)

    def errors(self, mixture: Mixture | None) -> int:
        """Return the errors with this mixture; those of the reader without one."""
        return self._errors([text for segment in self.segments for text in segment.texts(mixture)])

    @cached_property
    def gains(self) -> list[tuple[Evidence, int]]:
        """The evidence of each difference, and how many errors the words of the recogniser save there."""
        gains: list[tuple[Evidence, int]] = []
        lines = [segment.texts(None) for segment in self.segments]
        for place, segment in enumerate(self.segments):
            for number, choice in enumerate(segment.compared.choices if segment.compared else ()):
                assert segment.compared is not None
                changed = [*lines[:place], segment.compared.texts({number}), *lines[place + 1 :]]
                errors = self._errors([text for line in changed for text in line])
                gains.append((choice.evidence, self.reader_errors - errors))
        return gains

    @property
    def best_errors(self) -> int:
        """The errors with the better side of each difference."""
        return self.reader_errors - sum(max(0, gain) for _, gain in self.gains)

    def _errors(self, words: Sequence[str]) -> int:
        pairs = pair_words(list(self.utterance.words), normalise(" ".join(words)))
        return sum(pair.kind != RIGHT for pair in pairs)


_Kept = tuple[Reading, HeardSegment, tuple[str, ...]]
"""A segment with its words in the second pass."""


class _KeepingPass(ReaderPass):
    """A reader pass that keeps what was read, and leaves the words to the second pass."""

    def __init__(self, inner: ReaderPass) -> None:
        super().__init__(inner.reader, inner.aligner, inner.language, inner.mixtures)
        self.kept: list[tuple[Reading, HeardSegment]] = []

    def words_in_parts(self, reading: Reading, segment: HeardSegment) -> Work[tuple[HypothesisWord, ...]]:
        """Keep a reading."""
        self.kept.append((reading, replace(segment, samples=np.zeros(0, np.int16))))
        yield
        return ()


def read_all(
    utterances: Sequence[Utterance], bundle: Path, reader: Path, tell: Callable[[str], None], cache: Path | None = None
) -> list[ReadUtterance]:
    """Read these utterances. Those in which nobody hears words are left out.

    `cache`: a folder for what was read, so that a later call goes on.
    """
    recogniser = load_recogniser(bundle, slots=1, reader=LocalReader(load_reader(reader)), idle_limit_s=inf)
    assert recogniser.reader_pass is not None
    recogniser.reader_pass = keeping = _KeepingPass(recogniser.reader_pass)
    read: list[ReadUtterance] = []
    for number, utterance in enumerate(utterances, 1):
        name = hashlib.sha256(f"{reader.resolve()} {utterance.name}".encode()).hexdigest()[:24]
        place = None if cache is None else cache / f"{name}.pickle"
        if place is not None and place.exists():
            kept: list[_Kept] = pickle.loads(place.read_bytes())
        else:
            keeping.kept.clear()
            finals = iter(_recognise(recogniser, utterance.samples()))
            kept = [(reading, heard, tuple(next(finals, ()))) for reading, heard in keeping.kept]
            if place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                partial = place.with_suffix(".partial")
                partial.write_bytes(pickle.dumps(kept))
                partial.replace(place)
        if kept:
            segments = (
                ReadSegment(reading, heard, finish(keeping.compare_in_parts(reading, heard)), second)
                for reading, heard, second in kept
            )
            read.append(ReadUtterance(utterance, tuple(segments)))
        if not number % 50:
            tell(f"{number} of {len(utterances)} utterances")
    return read


def fitted_mixture(read: Sequence[ReadUtterance]) -> Mixture:
    """Return the mixture with the fewest errors in these utterances. CorpusError if every choice costs as much."""
    differing = [(evidence, gain) for one in read for evidence, gain in one.gains if gain]
    if not differing:
        raise CorpusError("the mixture needs recordings in which the second pass and the reader have different errors")
    gains = np.array([gain for _, gain in differing], dtype=np.float64)
    names = [field.name for field in fields(Evidence)]
    signs = np.array([[getattr(evidence, name) for name in names] for evidence, _ in differing])
    mean, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    inputs = np.column_stack([np.ones(len(signs)), (signs - mean) / spread])
    shares, sides = np.abs(gains) / np.abs(gains).sum(), np.sign(gains)
    ridge = np.full(inputs.shape[1], _RIDGE)
    ridge[0] = 1e-6
    weights = np.zeros(inputs.shape[1])
    for _ in range(_ROUNDS):  # Newton's method
        doubt = 1 / (1 + np.exp(sides * (inputs @ weights)))
        slope = (inputs * (sides * doubt * shares)[:, None]).sum(axis=0) - ridge * weights
        curve = (inputs * (doubt * (1 - doubt) * shares)[:, None]).T @ inputs + np.diag(ridge)
        weights = weights + np.linalg.solve(curve, slope)
    scaled = weights[1:] / spread
    values = dict(zip(names, (round(float(weight), 3) for weight in scaled), strict=True))
    return Mixture(round(float(weights[0] - scaled @ mean), 2), **values)


def cross_fitted(read: Sequence[ReadUtterance]) -> Mapping[str, Mixture]:
    """Return a mixture for each half, fitted on the other one."""
    return {part: fitted_mixture([one for one in read if one.half != part]) for part in HALVES}


def fitted_calibration(read: Sequence[ReadUtterance], reader_pass: ReaderPass, calibration: Calibration) -> Calibration:
    """Return the calibration with the confidence of combined words. Their times are those of the first pass."""
    signs: list[tuple[float, ...]] = []
    right: list[bool] = []
    for one in read:
        words = [
            word
            for segment in one.segments
            for word in finish(reader_pass.words_in_parts(segment.reading, segment.heard))
        ]
        pairs = pair_words(list(one.utterance.words), normalise(" ".join(word.text for word in words)))
        hits = {pair.hypothesis for pair in pairs if pair.kind == RIGHT}
        signs += [confidence_features(word) for word in words]
        right += [place in hits for place in range(len(words))]
    weights = fitted_evidence(np.array(signs), np.array(right, dtype=np.float64))
    ends = READER if READER in calibration.fits else LEXICON
    by_step = {
        step: StepCalibration(fit.start_ms, calibration.end_ms(step, ends), weights)
        for step, fit in calibration.fits[LEXICON].items()
        if step != WHOLE_MS
    }
    return replace(calibration, fits={**calibration.fits, READER: by_step})


def table(read: Sequence[ReadUtterance], mixtures: Mapping[str, Mixture]) -> Iterator[str]:
    """Yield a line for each corpus: word errors in percent alone, together, and at best. The mixtures are by half."""
    yield f"{'corpus':32} {'words':>6} {'second pass':>12} {'reader':>8} {'together':>9} {'at best':>8}"
    corpora = sorted({one.utterance.corpus for one in read})
    for corpus in [*corpora, "all"] if len(corpora) > 1 else corpora:
        own = [one for one in read if corpus in ("all", one.utterance.corpus)]
        words = sum(len(one.utterance.words) for one in own)
        sums = (
            sum(one.second_errors for one in own),
            sum(one.reader_errors for one in own),
            sum(one.errors(mixtures[one.half]) for one in own),
            sum(one.best_errors for one in own),
        )
        second, alone, together, best = (100 * each / max(1, words) for each in sums)
        yield f"{corpus:32} {words:6} {second:12.1f} {alone:8.1f} {together:9.1f} {best:8.1f}"


def plain_pass(bundle: Path, mixture: Mixture) -> ReaderPass:
    """Return the reader pass of a bundle with this mixture. It has no reader."""
    recogniser = load_recogniser(bundle, slots=1, reader=_NoReader())
    assert recogniser.reader_pass is not None
    inner = recogniser.reader_pass
    return ReaderPass(inner.reader, inner.aligner, inner.language, Mixtures({0: mixture}))


class _NoReader:
    """Reads nothing."""

    present = False
    languages = ()

    def ready(self) -> bool:
        return False

    def begin(
        self,
        samples: npt.NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        raise ReaderError("there is no reader")


def write_mixture(bundle: Path, read: Sequence[ReadUtterance], mixture: Mixture) -> None:
    """Write the mixture of the reader of these readings into a bundle. Those of other readers stay."""
    path = bundle / READER_FILE
    others = Mixtures.load(path).by_width if path.exists() else {}
    width = next(segment.reading.width for one in read for segment in one.segments)
    Mixtures({**others, width: mixture}).save(path)


def calibrated(bundle: Path) -> Calibration:
    """Return the calibration of a bundle."""
    return Calibration.load(bundle / CALIBRATION_FILE)


def _recognise(recogniser: Recogniser, samples: npt.NDArray[np.int16]) -> list[list[str]]:
    """Recognise samples. Return the words of each final."""
    step = recogniser.model.sample_rate * 320 // 1000
    options = {"second_pass": True, READER: True}
    recogniser.open(1, StreamOptions.from_dict(options, recogniser.model.step_ms, list(recogniser.searches)))
    finals: list[list[str]] = []
    for start in range(0, len(samples), step):
        chunk = Chunk(1, samples[start : start + step], end=start + step >= len(samples))
        for _, answer in recogniser.step([chunk]):
            if isinstance(answer, StreamError):
                raise answer
            finals += [normalise(event.text) for event in answer if isinstance(event, FinalEvent)]
    return finals
