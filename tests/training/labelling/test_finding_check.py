"""The share of read sentences that are found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from streamer.training.data.corpus import Utterance, write_corpus
from streamer.training.data.given_speech import decode
from streamer.training.labelling.finding_check import FindingRow, Outcome, check_finding
from streamer.triton.repository import asr_repository
from tests.project import SAMPLES
from tests.samples import reference


def test_a_recording_is_looked_up_with_its_sentence_and_without_it(tmp_path: Path) -> None:
    """The sentence is found where it is known. Another one that sounds different is not taken in its place."""
    samples = decode((SAMPLES / "airplane.mp3").read_bytes(), "airplane.mp3")
    text = reference("airplane.mp3").lower()
    write_corpus(tmp_path, "known", [(Utterance("airplane", 0, len(samples), "x", "y", text), samples)])
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("It was a dark night.\nAn aeroplane was almost here.\n")
    rows = check_finding(asr_repository() / "streaming_asr" / "1", tmp_path, "known", [sentences], 32)
    assert rows == [
        FindingRow(True, Counter({Outcome.RIGHT: 1})),
        FindingRow(False, Counter({Outcome.NONE: 1})),
    ]


def test_a_row_says_how_often_each_outcome_was() -> None:
    """The shares are of all recordings."""
    row = FindingRow(False, Counter({Outcome.ANOTHER: 1, Outcome.NONE: 3}))
    assert str(row) == "4 recordings, sentence not known: 0.0% found, 25.0% another one taken, 75.0% none taken"
