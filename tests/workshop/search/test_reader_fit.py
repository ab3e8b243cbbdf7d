"""Fitting how a reader and the recogniser are combined, and the confidence of their words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streamer.base.limits import READER, STEPS_MS, WHOLE_MS
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import HALVES, AudioLocation, Utterance, read_manifest
from streamer.engine.reader.alignment import Alignment
from streamer.engine.reader.combination import READER_FILE, Evidence, Mixture, Mixtures
from streamer.engine.reader.differences import OtherWords
from streamer.engine.reader.reader_pass import Choice, Compared, HeardSegment
from streamer.engine.reader.reading import Reading
from streamer.engine.reader.reading_words import ReadWord
from streamer.engine.text.calibration import LEXICON, Calibration, StepCalibration
from streamer.engine.text.marks import MarkedWord
from streamer.models.readers import find_reader
from tests.project import ROOT
from workshop.data.corpus import CorpusError
from workshop.search.reader_fit import (
    ReadSegment,
    ReadUtterance,
    calibrated,
    cross_fitted,
    fitted_calibration,
    fitted_mixture,
    plain_pass,
    read_all,
    table,
    write_mixture,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

BUNDLE = asr_repository() / "streaming_asr" / "1"
SAID = ("one", "two", "three", "four")


def utterance(number: int, read: str, others: Sequence[tuple[int, str, float]], second: str) -> ReadUtterance:
    """An utterance in which four words were said. `others`: the place of other words, and how the reader likes them."""
    spoken = Utterance(f"u{number}", "some", f"speaker {number}", SAID, AudioLocation(Path("none")))
    ways = [(ReadWord(word, MarkedWord.plain(), 0.9),) for word in read.split()]
    choices = [
        Choice(OtherWords(place, place + 1, tuple(words.split())), Evidence(gain, -1.0, 0.0, 0.0, 0.0))
        for place, words, gain in others
    ]
    compared = Compared(ways, Alignment((), 0.0), choices)
    heard = HeardSegment(np.zeros(0, np.int16), np.zeros((0, 3), np.float32), 640, ())
    return ReadUtterance(spoken, (ReadSegment(Reading(), heard, compared, tuple(second.split())),))


def utterances(numbers: Sequence[int]) -> list[ReadUtterance]:
    """Utterances in which the reader has the second word wrong, or the recogniser the third."""
    return [
        utterance(
            number, "one too three four", [(1, "two", -1.0 - number % 3), (2, "free", -8.0 - number % 5)], "one two"
        )
        for number in numbers
    ]


READ = utterances(range(40))


def test_the_better_side_of_each_difference_is_taken() -> None:
    """The mixture costs no more errors than the better side of each difference."""
    assert [gain for _, gain in READ[0].gains] == [1, -1]
    mixture = fitted_mixture(READ)
    assert all(one.errors(mixture) == one.best_errors == 0 for one in READ)
    assert (READ[0].second_errors, READ[0].reader_errors) == (2, 1)


def test_halves_are_judged_with_the_weights_of_the_other_one() -> None:
    """Each half has a mixture of its own, and the table says what came of it."""
    odd = utterance(99, "one two three four", [(1, "too", 5.0)], "one")
    other = HALVES[odd.half == HALVES[0]]
    crossed = cross_fitted([*READ, odd])
    assert crossed[odd.half] == fitted_mixture([one for one in READ if one.half == other])
    assert crossed[other] != crossed[odd.half]
    [_, line] = table(READ, crossed)
    assert line.split() == ["some", "160", "50.0", "25.0", "0.0", "0.0"]


def test_a_reading_that_loses_everywhere_leaves_the_second_pass() -> None:
    """If all differences are taken, the words of the second pass count, and those of a reading that cannot be used."""
    lost = utterance(1, "one two tree four", [(2, "three", 9.0)], "one two")
    assert lost.errors(Mixture(0.0, gain=1.0)) == 2
    assert lost.errors(Mixture(-99.0)) == lost.reader_errors == 1
    [segment] = lost.segments
    unused = ReadUtterance(lost.utterance, (ReadSegment(segment.reading, segment.heard, None, segment.second),))
    assert (unused.errors(Mixture(0.0)), unused.reader_errors, unused.gains) == (2, 2, [])


def test_the_weights_of_other_readers_stay(tmp_path: Path) -> None:
    """A mixture is written for the reader that was fitted, beside those of others."""
    write_mixture(tmp_path, READ, Mixture(1.0))
    Mixtures({0: Mixture(5.0), 288: Mixture(2.0)}).save(tmp_path / READER_FILE)
    write_mixture(tmp_path, READ, Mixture(1.0))
    assert Mixtures.load(tmp_path / READER_FILE).by_width == {0: Mixture(1.0), 288: Mixture(2.0)}


def test_without_a_difference_there_is_no_mixture() -> None:
    """Both sides must have different errors somewhere."""
    with pytest.raises(CorpusError, match="different errors"):
        fitted_mixture([utterance(0, "one two three four", [], "one")])


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> list[ReadUtterance]:
    """Provide a recording that the reader of this machine has read, from the cache of another call."""
    reader = find_reader("moonshine-tiny")
    assert reader is not None
    cache, told = tmp_path_factory.mktemp("cache") / "read", list[str]()
    recordings = list(read_manifest(ROOT / "audio_samples" / "samples.tsv"))[:1]
    first = read_all(recordings, BUNDLE, reader, told.append, cache)
    again = read_all(recordings, BUNDLE, reader, told.append, cache)
    assert [one.gains for one in again] == [one.gains for one in first]
    return again


def test_recordings_are_read_in_both_ways(read: list[ReadUtterance]) -> None:
    """The reader reads every recording beside the second pass, and each difference has its evidence."""
    [one] = read
    assert one.best_errors <= one.reader_errors <= one.second_errors + 2
    assert one.errors(Mixture(-999.0)) == one.reader_errors
    for evidence, _ in one.gains:
        assert all(abs(value) <= 20 for value in vars(evidence).values())
        assert evidence.own <= 0


def test_the_confidence_of_words(read: list[ReadUtterance]) -> None:
    """Words have a confidence of their own. The calibration of the searches stays."""
    before = calibrated(BUNDLE)
    after = fitted_calibration(read, plain_pass(BUNDLE, Mixture(-999.0)), before)
    assert {name: fits for name, fits in after.fits.items() if name != READER} == {
        name: fits for name, fits in before.fits.items() if name != READER
    }
    assert tuple(after.fits[READER]) == STEPS_MS
    assert all(fit.evidence is not None for fit in after.fits[READER].values())


def test_words_have_a_confidence_at_each_step_of_the_bundle(read: list[ReadUtterance]) -> None:
    """The starts of words are those of the first pass, the ends those that were fitted for a reader before."""
    fits = {step: StepCalibration(-float(step), -1.0) for step in (144, 336, 624, WHOLE_MS)}
    for before, end in (({}, -1.0), ({READER: {320: StepCalibration(0.0, -7.0)}}, -7.0)):
        after = fitted_calibration(read, plain_pass(BUNDLE, Mixture(-999.0)), Calibration({LEXICON: fits, **before}))
        found = after.fits[READER]
        assert {step: (fit.start_ms, fit.end_ms) for step, fit in found.items()} == {
            step: (-float(step), end) for step in (144, 336, 624)
        }
