"""Conversations follow from their seed, and their turns are where somebody speaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.commands.accuracy.manifest import AudioLocation, Utterance
from tests.project import SAMPLES
from workshop.speakers.conversations import RATE, make_conversation, voices_of


def _utterance(name: str, speaker: str) -> Utterance:
    return Utterance(f"{name} {speaker}", "samples", speaker, ("word",), AudioLocation(SAMPLES / name))


@pytest.fixture(scope="module")
def voices() -> dict[str, list[Utterance]]:
    return {"woman": [_utterance("talk.flac", "woman")], "man": [_utterance("quilter.ogg", "man")]}


def test_a_seed_gives_the_same_conversation(voices: dict[str, list[Utterance]]) -> None:
    first, again, other = (make_conversation(voices, 2, 60, seed) for seed in (1, 1, 2))
    assert (first.samples == again.samples).all()
    assert first.turns == again.turns
    assert first.turns != other.turns


def test_everybody_speaks_where_the_turns_say(voices: dict[str, list[Utterance]]) -> None:
    conversation = make_conversation(voices, 2, 60, 3)
    assert conversation.speakers == ["man", "woman"]
    assert conversation.seconds >= 60
    spoken = np.zeros(len(conversation.samples), np.bool_)
    for turn in conversation.turns:
        assert turn.start_s < turn.end_s <= conversation.seconds
        spoken[round(turn.start_s * RATE) : round(turn.end_s * RATE)] = True
    loud = np.abs(conversation.samples.astype(np.int32)) > 1_000
    assert loud[spoken].mean() > 0.1
    assert loud[~spoken].mean() < 0.001


def test_voices_have_recordings_enough(tmp_path: Path) -> None:
    utterances = [_utterance("talk.flac", "woman"), _utterance("quilter.ogg", "man"), _utterance("talk.flac", "man")]
    assert list(voices_of(utterances, 2)) == ["samples/man"]
