"""Fitting the gate of a reader, and the confidence of its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.base.limits import READER, STEPS_MS
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import AudioLocation, Utterance, read_manifest
from streamer.engine.reader.gate import Evidence, Gate
from streamer.engine.search.search import HypothesisWord
from streamer.models.readers import find_reader
from tests.project import ROOT
from workshop.data.corpus import CorpusError
from workshop.search.reader_fit import (
    ReadUtterance,
    calibrated,
    fitted_calibration,
    fitted_gate,
    read_all,
    table,
)

BUNDLE = asr_repository() / "streaming_asr" / "1"


def utterance(number: int, certainty: float, second: int, reader: int) -> ReadUtterance:
    """An utterance of ten words that only the certainty of the reader tells from others."""
    spoken = Utterance(f"u{number}", "some", f"speaker {number}", ("word",) * 10, AudioLocation(Path("none")))
    words = tuple(HypothesisWord("word", place, place + 1, 0.9 if place else 0.1, 0.9) for place in range(10))
    right = (False, *[True] * 9)
    return ReadUtterance(spoken, Evidence(certainty, 0.0, 0.5, 0.5), second, reader, words, right)


READ = [utterance(number, -0.1 - 0.01 * number, 4, 1) for number in range(20)]
READ += [utterance(20 + number, -1.0 - 0.01 * number, 2, 8) for number in range(20)]


def test_the_gate_believes_where_the_reader_is_better() -> None:
    """It costs no more errors than the better way of each utterance."""
    gate = fitted_gate(READ)
    assert all((gate.score(one.evidence) > 0) is (one.reader_errors < one.second_errors) for one in READ)
    [_, line] = table(READ, gate)
    assert line.split() == ["some", "30.0", "45.0", "15.0", "15.0", "0.50"]


def test_without_a_difference_there_is_no_gate() -> None:
    """Both ways must have different errors somewhere."""
    with pytest.raises(CorpusError, match="different errors"):
        fitted_gate([utterance(0, -0.1, 2, 2)])


def test_the_confidence_of_words() -> None:
    """Words that are right get a higher confidence. The calibration of the searches stays."""
    before = calibrated(BUNDLE)
    after = fitted_calibration(READ, before)
    assert {name: fits for name, fits in after.fits.items() if name != READER} == {
        name: fits for name, fits in before.fits.items() if name != READER
    }
    wrong, right = READ[0].words[:2]
    for step in STEPS_MS:
        assert after.confidence(wrong, step, READER) < 0.5 < after.confidence(right, step, READER)


def test_recordings_are_read_in_both_ways() -> None:
    """The reader reads every recording, and its words come with the evidence and their errors."""
    reader = find_reader("moonshine-tiny")
    assert reader is not None
    told: list[str] = []
    read = read_all(list(read_manifest(ROOT / "audio_samples" / "samples.tsv"))[:1], BUNDLE, reader, told.append)
    assert len(read) == 1
    assert read[0].reader_errors <= read[0].second_errors + 2
    assert len(read[0].words) == len(read[0].right)
    assert -1 < read[0].evidence.certainty < 0
    assert Gate(1.0, 0.0, 0.0, 0.0, 0.0).score(read[0].evidence) == 1.0
