"""Written text becomes phones for the n-gram."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.acoustic import units
from streamer.training.data.corpus import CorpusError
from streamer.training.language.pronunciation import Pronunciations
from streamer.training.phones.phone_ngram import estimate
from streamer.training.phones.written_phones import written_phones


@pytest.fixture(scope="module")
def pronunciations() -> Pronunciations:
    """Provide the shipped pronunciations."""
    return Pronunciations.load()


def test_each_sentence_has_its_phones(tmp_path: Path, pronunciations: Pronunciations) -> None:
    """Each sentence is one sequence, with a boundary after every word; one with an unspeakable word is left out."""
    text = tmp_path / "text.txt"
    text.write_text("A cat saw 2 dogs. The cat ran.\nThe x9z ran.\n", encoding="utf-8")
    found = [[units.PHONE_UNITS[unit] for unit in sentence] for sentence in written_phones([text], pronunciations)]
    assert [" ".join(sentence) for sentence in found] == [
        "AH | K AE T | S AO | T UW | D AA G Z |",
        "DH AH | K AE T | R AE N |",
    ]


def test_text_makes_the_n_gram_wider(tmp_path: Path, pronunciations: Pronunciations) -> None:
    """Phones that only the text has are likelier with it."""
    text = tmp_path / "text.txt"
    text.write_text("The dog barked.\n" * 3, encoding="utf-8")
    cat = [units.PHONE_NUMBER[phone] for phone in ("K", "AE", "T", units.BOUNDARY)]
    [dog, *_] = sequences = list(written_phones([text], pronunciations))
    alone, both = (estimate(found, len(units.PHONE_UNITS), 3) for found in ([cat], [cat, *sequences]))
    assert both.log_weight(dog) > alone.log_weight(dog)


def test_a_text_that_cannot_be_read_is_named(tmp_path: Path, pronunciations: Pronunciations) -> None:
    """A missing text is an error of one sentence."""
    with pytest.raises(CorpusError, match=r"nothing\.txt cannot be read"):
        list(written_phones([tmp_path / "nothing.txt"], pronunciations))
