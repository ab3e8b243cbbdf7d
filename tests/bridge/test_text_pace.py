"""The pace at which text of one client is read."""

from __future__ import annotations

import pytest

from streamer.bridge.text_pace import MOST_TEXTS, TEXTS_PER_S, TextPace


def test_the_pace_of_text() -> None:
    """Some messages may come at once; each further one waits; after a pause as many may come again."""
    pace = TextPace()
    assert [pace.wait_s(100.0) for _ in range(MOST_TEXTS)] == pytest.approx([0.0] * MOST_TEXTS)
    assert pace.wait_s(100.0) == pytest.approx(1 / TEXTS_PER_S)
    assert pace.wait_s(100.0 + 1 / TEXTS_PER_S) == pytest.approx(1 / TEXTS_PER_S)
    assert [pace.wait_s(200.0) for _ in range(MOST_TEXTS)] == pytest.approx([0.0] * MOST_TEXTS)
