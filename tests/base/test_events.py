"""Events as JSON."""

from __future__ import annotations

import json

from streamer.base.events import Alternative, Final, Heard, Partial, Word, as_json


def test_an_event_is_one_json_object_with_its_type() -> None:
    """The type comes with the fields, words as objects, text as it is written."""
    final = Final(2, "naïve", 10, 20, 30, 0.5, (Word("naïve", 10, 20, 0.5),))
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


def test_what_is_inside_is_written_without_its_gaps() -> None:
    """Alternatives and words are lists of objects; one without a confidence has no such key."""
    final = Final(0, "21", 0, 9, 9, 0.5, None, "twenty one", (Alternative("21", 0.5), Alternative("20", 0.25)))
    content = json.loads(as_json(final))
    assert content["spoken"] == "twenty one"
    assert content["alternatives"] == [{"text": "21", "confidence": 0.5}, {"text": "20", "confidence": 0.25}]
    assert "words" not in content
    partial = json.loads(as_json(Partial(0, "a", 1, 0, 9, (Word("a", 0, 9),))))
    assert partial["words"] == [{"word": "a", "start_ms": 0, "end_ms": 9}]
