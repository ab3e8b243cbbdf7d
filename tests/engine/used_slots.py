"""Slots of a network that other streams have used before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.engine.acoustics.streaming_model import ModelState, SlotNetwork


def used(network: SlotNetwork, slots: int, cleaned: Sequence[int]) -> ModelState:
    """Return a state with remains of other streams, in which these slots were reset."""
    state, dice = network.make_state(slots), np.random.default_rng(0)
    for array in state.values():
        array[:] = dice.integers(1, 99, array.shape)
        array[list(cleaned)] = 0
    return state
