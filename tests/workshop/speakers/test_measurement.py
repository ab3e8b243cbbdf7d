"""Figures are shares of the speech, and follow from what the scorer says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from streamer.engine.speakers.networks import VoiceNetworks
from streamer.models.speaker_networks import find_speaker_networks, read_speaker_networks
from tests.engine.speakers.talks import conversation
from workshop.speakers.conversations import RATE, Conversation, SpokenTurn
from workshop.speakers.measurement import measure, measure_other


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
    ours = ["live", "live, voices known", "second look", "second look, number known", "recording, voices known"]
    assert [each.name for each in figures] == ours
    for each in figures:
        assert (each.missed, each.invented, each.confused) == pytest.approx((0.1, 0.02, 0.1))
        assert each.error == pytest.approx(0.22)
        assert (each.conversations, each.right_count, each.too_many, each.too_few) == (1, 1, 0, 0)
        assert 0 < each.cpu_s < 5


def test_figures_of_something_else() -> None:
    """Whatever tells turns is counted in the same way: here it tells one voice too few, and then one too many."""
    spoken = tuple(SpokenTurn(10.0 * at, 10.0 * at + 9, str(at % 2)) for at in range(4))
    talk = Conversation("of two", np.zeros(40 * RATE, np.int16), spoken)
    for numbers, wrong in (((0, 0, 0, 0), (0, 0, 1)), ((0, 1, 2, 1), (0, 1, 0)), ((0, 1, 0, 1), (1, 0, 0))):
        turns = [(10 * RATE * at, (10 * at + 9) * RATE, number) for at, number in enumerate(numbers)]
        told = measure_other("another", lambda _, turns=turns: turns, [talk], _score)  # type: ignore[misc]
        assert (told.right_count, told.too_many, told.too_few) == wrong
        assert told.confused == pytest.approx(0.05 * len(set(numbers)))
