"""What others tell about a conversation: Moonshine really hears it, and Resemblyzer is no package of the project."""

from __future__ import annotations

import pytest

from streamer.models.speaker_networks import find_speaker_networks, read_speaker_networks
from tests.engine.speakers.talks import conversation
from workshop.speakers.conversations import RATE, Conversation
from workshop.speakers.others import ResemblyzerNetworks, moonshine_turns


def test_the_pipeline_of_moonshine_tells_turns() -> None:
    """Its turns are in order and within the sound, a turn has its voice, and most of the speech is in one."""
    samples, turns = conversation()
    samples = samples[: 12 * RATE]
    told = moonshine_turns(Conversation("of two", samples, ()))
    assert told == sorted(told)
    assert all(0 <= start < end <= len(samples) + RATE for start, end, _ in told)
    spoken = sum(min(end, len(samples)) - start for start, end, _ in turns if start < len(samples))
    assert sum(end - start for start, end, _ in told) > spoken / 2
    assert {voice for _, _, voice in told} == set(range(len({voice for _, _, voice in told})))


def test_resemblyzer_must_be_installed_by_hand() -> None:
    """Without its package, it is refused before anything is heard."""
    library = find_speaker_networks()
    assert library is not None
    with pytest.raises(ImportError, match="resemblyzer"):
        ResemblyzerNetworks(read_speaker_networks(library))
