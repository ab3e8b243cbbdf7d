"""The arrays of the beams of all slots."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.search import beams
from streamer.engine.search.beams import WORD, Histories
from tests.engine.search.while_growing import work_while_growing


def test_a_slot_that_is_reset_while_the_histories_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may reset a slot while those of a batch get more room: it has no word of its last segment then."""
    histories = Histories(2, beam=4)
    histories.arrays.words[1, 0]["word"] = 7
    work_while_growing(
        monkeypatch, beams, histories, lambda: histories.reserve([0], more=8), lambda: histories.reset(1)
    )
    assert histories.arrays.words.shape[1] > 1
    assert histories.arrays.words[1, 0] == np.zeros((), WORD)
