"""Fits the corrections of times and confidences on one half of a set, and evaluates them on the other half.

There is one fit for each search and step length. The correction of times is the median distance between the found and
the aligned starts and ends of right words. The probability that a word is right comes from logistic regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from streamer.base.limits import READER, WHOLE_MS
from streamer.commands.accuracy.word_errors import RIGHT, pair_words
from streamer.commands.accuracy.word_figures import JudgedConfidence, TimeOffset, reliability, time_errors
from streamer.commands.accuracy.word_sections import table
from streamer.engine.acoustics.bundle_files import read_description
from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE, load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions, HypothesisWord
from streamer.engine.text.calibration import (
    CALIBRATION_FILE,
    GREEDY,
    LEXICON,
    Calibration,
    ConfidenceWeights,
    StepCalibration,
    confidence_features,
)
from workshop.data.alignment import Alignment, read_alignments
from workshop.data.corpus import CorpusError
from workshop.search.trials import (
    CHARACTERS_HEAD,
    HEAD,
    EmittedUtterance,
    Trial,
    halves,
    read_emissions,
    run_beam,
    run_greedy,
)

STREAMS = 32
# This ridge keeps weights small if several signs say the same. With thousands of words it hardly changes anything else.
RIDGE = 1.0
ROUNDS = 50

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RecognisedUtterance:
    """One utterance: the words that a search found, which of them are right, and the aligned times of those (ms)."""

    words: tuple[HypothesisWord, ...]
    right: tuple[bool, ...]
    times: Mapping[int, tuple[int, int]]  # by the number of the word


def compare(spoken: EmittedUtterance, words: tuple[HypothesisWord, ...], alignment: Alignment) -> RecognisedUtterance:
    """Compare the words that a search found with the reference and its times."""
    pairs = pair_words(spoken.words, [word.text for word in words])
    matches = {pair.hypothesis: pair.reference for pair in pairs if pair.kind == RIGHT}
    times = {}
    if alignment.aligned and [word for word, _, _ in alignment.words] == spoken.words:
        for number, reference in matches.items():
            if number is not None and reference is not None:
                _, start, length = alignment.words[reference]
                times[number] = start, start + length
    return RecognisedUtterance(words, tuple(number in matches for number in range(len(words))), times)


def fitted(utterances: Sequence[RecognisedUtterance], frame_ms: float) -> StepCalibration:
    """Return the delays and the evidence that fit these utterances."""
    starts = [
        start - one.words[number].start * frame_ms for one in utterances for number, (start, _) in one.times.items()
    ]
    ends = [end - one.words[number].end * frame_ms for one in utterances for number, (_, end) in one.times.items()]
    if not starts:
        raise CorpusError(
            "the calibration needs words that were recognised correctly, but the alignment has none of them"
        )
    signs = np.array([confidence_features(word) for one in utterances for word in one.words])
    right = np.array([right for one in utterances for right in one.right], dtype=np.float64)
    return StepCalibration(round(float(median(starts)), 1), round(float(median(ends)), 1), evidence(signs, right))


def evidence(signs: Values, right: Values) -> ConfidenceWeights:
    """Return the weights of the signs by logistic regression. Weights that must not be negative are zero instead."""
    names = [field.name for field in fields(ConfidenceWeights)]
    used = list(range(len(names)))
    while True:
        weights = _regression(signs[:, used], right)
        by_name = {names[index]: round(float(weight), 4) + 0.0 for index, weight in zip(used, weights, strict=True)}
        negative = [name for name in ("confidence", "share") if by_name.get(name, 0.0) < 0]
        if not negative:
            return ConfidenceWeights(**by_name)
        used.remove(names.index(negative[0]))


def _regression(signs: Values, right: Values) -> Values:
    """Fit by Newton's method. The first column is constant, and the ridge does not apply to it."""
    weights = np.zeros(signs.shape[1])
    ridge = np.full(signs.shape[1], RIDGE)
    ridge[0] = 1e-6
    for _ in range(ROUNDS):
        probable = 1 / (1 + np.exp(-np.clip(signs @ weights, -30, 30)))
        slope = signs.T @ (right - probable) - ridge * weights
        curve = (signs * (probable * (1 - probable))[:, None]).T @ signs + np.diag(ridge)
        move = np.linalg.solve(curve, slope)
        weights = weights + move
        if np.abs(move).max() < 1e-6:
            break
    return weights


def judged(
    utterances: Sequence[RecognisedUtterance], calibration: Calibration, search: str, step_ms: int, frame_ms: float
) -> list[str]:
    """Return a row of the table: median and 90th percentile of the errors of times, and errors of confidences."""
    offsets, words, finals = [], [], []
    for one in utterances:
        spans = calibration.spans(one.words, frame_ms, step_ms, search)
        offsets += [
            TimeOffset(spans[number][0] - start, spans[number][1] - end) for number, (start, end) in one.times.items()
        ]
        sure = [calibration.confidence(word, step_ms, search) for word in one.words]
        words += [JudgedConfidence(each, right) for each, right in zip(sure, one.right, strict=True)]
        if sure:
            finals.append(JudgedConfidence(calibration.final(sure), sum(one.right) / len(sure)))
    times, of_words, of_finals = time_errors(offsets), reliability(words), reliability(finals)
    if times is None or of_words is None or of_finals is None:
        return [f"{search}, {step_ms} ms", *["-"] * 8]
    return [
        f"{search}, {step_ms} ms",
        *(f"{value:.0f}" for value in (times.start.median, times.start.p90, times.end.median, times.end.p90)),
        str(of_words.number),
        *(f"{value:.3f}" for value in (of_words.error, of_words.ranking, of_finals.error)),
    ]


def moved(former: Calibration, ours: Mapping[int, StepCalibration]) -> dict[int, StepCalibration]:
    """Return the fits of a reader's words beside our new ones: they end as much before or after ours as they did.

    Their confidence stays as it was, until `fit_reader.py` fits it.
    """
    return {
        step_ms: StepCalibration(
            fit.start_ms,
            fit.end_ms + former.end_ms(step_ms, READER) - former.end_ms(step_ms, LEXICON),
            former.fit(step_ms, READER).evidence,
        )
        for step_ms, fit in ours.items()
        if step_ms != WHOLE_MS
    }


def calibrate(
    bundle: Path, work: Path, name: str, cache: Path, steps: Sequence[int] | None, tell: Callable[[str], None]
) -> str:
    """Fit on one half of the prepared set and write `calibration.json`. Returns tables of the errors on both halves.

    `steps`: the lengths of steps in milliseconds; None for those of the model and of its second pass.
    """
    description = read_description(bundle)
    frame_ms = description.encoder.frame_ms
    lexicon = Lexicon.load(bundle / LEXICON_FILE)
    language = LanguageModel.load(bundle / LANGUAGE_FILE)
    rescorer = load_rescorer(bundle, language)
    alignments = read_alignments(work, name)

    def run_lexicon(spoken: Sequence[EmittedUtterance], step_ms: int) -> Trial:
        weights = BeamOptions.load(bundle / SEARCH_FILE, second_pass=step_ms == WHOLE_MS)
        return run_beam(spoken, lexicon, language, weights, STREAMS, rescorer)

    searches: dict[str, tuple[str, Callable[[Sequence[EmittedUtterance], int], Trial]]] = {
        LEXICON: (HEAD, run_lexicon),
        GREEDY: (CHARACTERS_HEAD, lambda spoken, _: run_greedy(spoken)),
    }
    fits: dict[str, dict[int, StepCalibration]] = {}
    by_step: dict[tuple[str, int], list[list[RecognisedUtterance]]] = {}
    for search, (head, run) in searches.items():
        fits[search] = {}
        for step_ms in steps or (*description.step_ms, WHOLE_MS):
            spoken = read_emissions(bundle, work, name, cache, step_ms, head)
            by_step[search, step_ms] = [
                [
                    compare(one, words, alignments[one.utterance.name])
                    for one, words in zip(half, run(half, step_ms).hypotheses, strict=True)
                ]
                for half in halves(spoken)
            ]
            fits[search][step_ms] = fitted(by_step[search, step_ms][0], frame_ms)
            tell(f"{search}, {step_ms} ms: {fits[search][step_ms]}")
    path = bundle / CALIBRATION_FILE
    if path.is_file() and READER in (former := Calibration.load(path)).fits:
        fits[READER] = moved(former, fits[LEXICON])
    calibration = Calibration(fits)
    calibration.save(path)
    tell(f"wrote {path}")
    header = ["search, step", "start", "90th %", "end", "90th %", "words", "calibration error", "ranking", "of finals"]
    tables = []
    for index, title in enumerate(("the half it was fitted on", "the other half")):
        rows = [judged(each[index], calibration, *which, frame_ms) for which, each in by_step.items()]
        tables.append(f"{title}:\n{table(header, rows)}")
    return "\n\n".join(tables)
