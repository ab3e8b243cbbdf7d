"""The choice of the models that are let go for another one."""

from __future__ import annotations

import pytest

from streamer.bridge.loading.choice import LoadedModel, models_to_let_go

OLD = LoadedModel("old", 4, busy=False, last_use=1)
BUSY = LoadedModel("busy", 4, busy=True, last_use=2)
NEW = LoadedModel("new", 4, busy=False, last_use=3)


@pytest.mark.parametrize(
    ("needed", "room", "chosen"),
    [
        (4, 16, []),
        (4, 12, ["old"]),
        (8, 16, ["old"]),
        (8, 12, ["old", "new"]),
        (9, 12, None),
        (4, 7, None),
    ],
)
def test_the_least_recently_used_go_first(needed: int, room: int, chosen: list[str] | None) -> None:
    """As few as possible go, the least recently used first, and never one that is busy."""
    assert models_to_let_go([NEW, BUSY, OLD], needed, room) == chosen


def test_one_that_has_outgrown_the_room() -> None:
    """A model that needs more than the memory of all gets all of it, unless another one is busy."""
    assert models_to_let_go([OLD, NEW], 20, 12) == ["old", "new"]
    assert models_to_let_go([OLD, BUSY], 20, 12) is None
    assert models_to_let_go([], 20, 12) == []
