"""Events as JSON."""

from __future__ import annotations

import json

from streamer.engine.events import Final, Heard, SpokenWord, as_json


def test_an_event_is_one_json_object_with_its_type() -> None:
    """The type comes with the fields, words as objects, text as it is written."""
    final = Final(2, "naïve", 10, 20, 30, 0.5, (SpokenWord("naïve", 10, 20, 0.5),))
    assert json.loads(as_json(final)) == {
        "type": "final",
        "segment": 2,
        "text": "naïve",
        "start_ms": 10,
        "end_ms": 20,
        "audio_ms": 30,
        "confidence": 0.5,
        "words": [{"word": "naïve", "start_ms": 10, "end_ms": 20, "confidence": 0.5}],
    }
    assert "naïve" in as_json(final)


def test_missing_words_are_left_out() -> None:
    """A final without words has no such key."""
    assert "words" not in json.loads(as_json(Final(0, "a", 0, 1, 2, 1.0)))
    assert as_json(Heard(16, 1)) == '{"type":"heard","sample":16,"audio_ms":1}'
