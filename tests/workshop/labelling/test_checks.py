"""How many read sentences are found, and how often surely recognised words are right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from streamer.bridge.triton.repository import asr_repository
from tests.project import SAMPLES
from tests.samples import reference
from workshop.data.corpus import Utterance, decode, write_corpus
from workshop.labelling.checks import FindingRow, Outcome, SureUtterance, check_finding, check_sureness, sureness_rows


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


def test_the_surest_utterances_come_first() -> None:
    """Each row has the errors of the surest utterances only, and the least sureness among them."""
    heard = [SureUtterance(0.1 * number, 9 - number, 10) for number in range(10)]
    rows = {row.share: (round(row.least, 1), row.words_wrong) for row in sureness_rows(heard)}
    assert rows[0.2] == (0.8, pytest.approx(1 / 20))
    assert rows[0.5] == (0.5, pytest.approx(10 / 50))
    assert rows[1.0] == (0.0, pytest.approx(45 / 100))
    assert list(sureness_rows([])) == []


def test_a_prepared_set_is_recognised(tmp_path: Path) -> None:
    """The words of a recording are compared with its text."""
    samples = decode((SAMPLES / "airplane.mp3").read_bytes(), "airplane.mp3")
    text = reference("airplane.mp3").lower()
    write_corpus(tmp_path, "known", [(Utterance("airplane", 0, len(samples), "x", "y", text), samples)])
    rows = check_sureness(asr_repository() / "streaming_asr" / "1", tmp_path, "known", 32)
    (wrong,) = {row.words_wrong for row in rows}
    assert 0 <= wrong * len(text.split()) < len(text.split())
    assert str(rows[-1]).startswith("100% surest: sureness ")
