"""The states of a graph in slots."""

from __future__ import annotations

import numpy as np

from streamer.engine.public.states import SlotStates
from streamer.models.layout import StatePort
from streamer.models.onnx_file import ElementType, Port

SLOTS = 5


def test_every_slot_keeps_its_own_states() -> None:
    """Whichever slots are computed together, each has its own states since its last reset."""
    ports = [
        StatePort(Port("first", ElementType.FLOAT, None), (1, 2), 0, "first"),
        StatePort(Port("middle", ElementType.INT64, None), (2, 1, 3), 1, "middle"),
    ]
    states = SlotStates(ports, [np.float32, np.int64], SLOTS)
    expected = [0] * SLOTS
    random = np.random.default_rng(0)
    slots = [0, 2, 3]
    for _ in range(200):
        if random.random() < 0.4:
            slots = sorted(random.choice(SLOTS, random.integers(1, SLOTS), replace=False).tolist())
        batch = states.batch(slots)
        assert batch["first"][:, 0].tolist() == [expected[slot] for slot in slots]
        assert batch["middle"][1, :, 2].tolist() == [expected[slot] for slot in slots]
        added = random.integers(1, 100, len(slots))
        states.replace(slots, [batch["first"] + added[:, None], batch["middle"] + added[None, :, None]])
        for slot, number in zip(slots, added.tolist(), strict=True):
            expected[slot] += number
        if random.random() < 0.3:
            cleared = random.choice(SLOTS, 2, replace=False).tolist()
            states.reset(cleared)
            for slot in cleared:
                expected[slot] = 0
    states.settle()
    assert states["middle"][0, :, 0].tolist() == expected


def test_the_same_batch_is_not_copied() -> None:
    """If the same slots are computed again, the graph gets the arrays that it returned."""
    states = SlotStates([StatePort(Port("state", ElementType.FLOAT, None), (1, 2), 0, "out")], [np.float32], SLOTS)
    states.batch([1, 2])
    given = np.ones((2, 2), np.float32)
    states.replace([1, 2], [given])
    assert states.batch([1, 2])["state"] is given
    assert states.batch([2])["state"].tolist() == [[1, 1]]
