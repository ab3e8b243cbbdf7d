"""The options of a stream."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.engine.options import BadOptions, StreamOptions

STEPS = (160, 320, 640)
SEARCHES = ("lexicon", "greedy")


def test_defaults() -> None:
    """No options mean 320 ms steps, everything on, and the lexicon."""
    assert StreamOptions.from_dict({}, STEPS, SEARCHES) == StreamOptions(320, True, True, True, "lexicon")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"colour": 1}, "unknown option 'colour'; known are step_ms, partials, words, speech, search"),
        ({"partials": 1}, "'partials' must be a JSON true or false, not 1"),
        ({"step_ms": True}, "'step_ms' must be a JSON integer, not true"),
        ({"step_ms": "320"}, "'step_ms' must be a JSON integer"),
        ({"step_ms": 100}, "step_ms must be one of 160, 320, 640, not 100"),
        ({"search": "best"}, "search must be one of lexicon, greedy, not best"),
        ({"search": None}, "'search' must be a JSON string, not null"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], complaint: str) -> None:
    """A bad option is refused with what would be right."""
    with pytest.raises(BadOptions, match=complaint):
        StreamOptions.from_dict(given, STEPS, SEARCHES)
