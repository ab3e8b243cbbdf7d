"""Where an alignment has speech."""

from __future__ import annotations

from streamer.training.activity.aligned_speech import speech_spans
from streamer.training.data.alignment import Alignment


def test_short_pauses_are_speech() -> None:
    """Phones less than 200 ms apart belong to the same stretch of speech."""
    phones = [("A", 100, 100, 0), ("B", 350, 50, 0), ("C", 600, 100, 1)]
    assert speech_spans(Alignment("u", True, 0.0, [], phones)) == [(100, 400), (600, 700)]
