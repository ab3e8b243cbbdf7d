"""Gives the words of a final their speakers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamer.base.events import Final
from streamer.base.speakers import TimedTurn, main_speaker, speaker_at


def with_speakers(final: Final, turns: Sequence[TimedTurn]) -> Final:
    """Return a final whose words have the speakers of these turns; the final has the one of most of its words."""
    if final.words is None:
        return replace(final, speaker=speaker_at(final.start_ms, final.end_ms, turns))
    words = [replace(word, speaker=speaker_at(word.start_ms, word.end_ms, turns)) for word in final.words]
    return replace(final, words=tuple(words), speaker=main_speaker(word.speaker for word in words))
