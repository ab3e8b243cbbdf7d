"""How often surely recognised words are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.data.corpus import Utterance, write_corpus
from streamer.training.data.given_speech import decode
from streamer.training.labelling.sureness_check import Heard, check_sureness, sureness_rows
from streamer.triton.repository import asr_repository
from tests.project import SAMPLES
from tests.samples import reference


def test_the_surest_utterances_come_first() -> None:
    """Each row has the errors of the surest utterances only, and the least sureness among them."""
    heard = [Heard(0.1 * number, 9 - number, 10) for number in range(10)]
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
