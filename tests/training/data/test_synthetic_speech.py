"""Synthetic speech has the same form as the other sets, and has no text of dev."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from streamer.training.data.corpus import Corpus, CorpusError
from streamer.training.data.preparation import prepare
from streamer.training.data.synthetic_prompts import transcript
from streamer.training.data.synthetic_speech import planned_speech, synthesise
from tests.training.data.given_folder import make_given


def test_synthetic_speech_lies_beside_train(tmp_path: Path) -> None:
    """The set has the requested length, comes from each engine, and is the same for the same seed."""
    prepare(make_given(tmp_path / "given"), tmp_path / "work", 1, print)
    synthesise(tmp_path / "work", 4 / 3600, ["espeak-ng", "flite"], seed=1, processes=1)
    made = Corpus(tmp_path / "work", "synthetic")
    before = made.everything().tobytes()
    assert 4 <= len(before) / 32000 < 16
    assert {utterance.corpus for utterance in made.utterances} == {"synthetic_espeak-ng", "synthetic_flite"}
    assert all(utterance.speaker and utterance.text.islower() for utterance in made.utterances)
    assert len({utterance.name for utterance in made.utterances}) == len(made.utterances)
    synthesise(tmp_path / "work", 4 / 3600, ["espeak-ng", "flite"], seed=1, processes=2)
    assert Corpus(tmp_path / "work", "synthetic").everything().tobytes() == before


def test_synthetic_speech_needs_what_was_prepared(tmp_path: Path) -> None:
    """Without train the rare words are unknown, which is an error."""
    with pytest.raises(CorpusError, match="prepare_speech"):
        synthesise(tmp_path / "work", 1, ["flite"], seed=1, processes=1)


def test_no_text_of_dev_is_said() -> None:
    """Texts of dev are skipped, and no others."""
    said, kept = (
        [transcript(text) for _, text in islice(planned_speech(["zebra"], unwanted, ["flite"], random.Random(3)), 400)]
        for unwanted in (set(), {"zebra", "stop"})
    )
    assert {"zebra", "stop"} <= set(said)
    assert {"zebra", "stop"}.isdisjoint(kept)
    assert "play the next song" in kept
