"""Figures are shares of the speech, and follow from what the scorer says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from streamer.engine.speakers.networks import VoiceNetworks
from streamer.models.speaker_networks import find_speaker_networks, read_speaker_networks
from tests.engine.speakers.talks import conversation
from workshop.speakers.conversations import RATE, Conversation, SpokenTurn
from workshop.speakers.measurement import measure


def _score(reference: Sequence[SpokenTurn], found: Sequence[SpokenTurn], seconds: float) -> Mapping[str, float]:
    """Count half of a second as confused for each voice that was found."""
    confused = 0.5 * len({turn.speaker for turn in found})
    return {"total": 10.0, "missed detection": 1.0, "false alarm": 0.2, "confusion": confused}


def test_figures_of_a_conversation() -> None:
    library = find_speaker_networks()
    assert library is not None
    samples, turns = conversation()
    spoken = tuple(SpokenTurn(start / RATE, end / RATE, str(who)) for start, end, who in turns)
    figures = measure(VoiceNetworks(read_speaker_networks(library)), [Conversation("of two", samples, spoken)], _score)
    assert [each.name for each in figures] == ["live", "second look", "second look, number known"]
    for each in figures:
        assert (each.missed, each.invented, each.confused) == pytest.approx((0.1, 0.02, 0.1))
        assert each.error == pytest.approx(0.22)
        assert (each.conversations, each.right_count) == (1, 1)
        assert 0 < each.cpu_s < 5
