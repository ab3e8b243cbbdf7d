"""Words get the speakers of the turns in which they lie, and segments are divided by speaker."""

from __future__ import annotations

from typing import Any

from streamer.base.speakers import TimedTurn, main_speaker, parts_of, speaker_at, with_merge, with_turns

TURNS = [TimedTurn(0, 1000, 0), TimedTurn(900, 2000, 1), TimedTurn(5000, 6000, 0)]


def _words(*said: tuple[str, int | None]) -> list[dict[str, Any]]:
    words = []
    for number, (word, speaker) in enumerate(said):
        told = {} if speaker is None else {"speaker": speaker}
        words.append({"word": word, "start_ms": number * 500, "end_ms": number * 500 + 400, "confidence": 1.0, **told})
    return words


def _segment(*said: tuple[str, int | None], **more: Any) -> dict[str, Any]:
    words = _words(*said)
    text = " ".join(word for word, _ in said)
    return {"start_ms": 0, "end_ms": words[-1]["end_ms"], "text": text, "confidence": 1.0, "words": words, **more}


def test_a_word_belongs_to_the_turn_with_most_of_it() -> None:
    assert speaker_at(100, 300, TURNS) == 0
    assert speaker_at(950, 1200, TURNS) == 1
    assert speaker_at(700, 1000, TURNS) == 0


def test_a_word_between_turns_belongs_to_the_nearest_within_a_second() -> None:
    assert speaker_at(2100, 2300, TURNS) == 1
    assert speaker_at(4700, 4900, TURNS) == 0
    assert speaker_at(3100, 3300, TURNS) is None
    assert speaker_at(0, 100, []) is None


def test_the_main_speaker_says_most_words() -> None:
    assert main_speaker([1, None, 0, 1]) == 1
    assert main_speaker([None]) is None


def test_turns_replace_all_speakers_of_a_segment() -> None:
    segment = _segment(("one", 4), ("two", 4), ("three", 4), speaker=4)
    told: dict[str, Any] = {**with_turns(segment, TURNS)}
    assert [word["speaker"] for word in told["words"]] == [0, 0, 1]
    assert told["speaker"] == 0
    untold: dict[str, Any] = {**with_turns(segment, [])}
    assert "speaker" not in untold
    assert all("speaker" not in word for word in untold["words"])


def test_a_segment_without_words_has_the_speaker_of_its_time() -> None:
    told = with_turns({"start_ms": 1100, "end_ms": 1900, "text": "one", "words": None}, TURNS)
    assert told["speaker"] == 1


def test_two_speakers_become_one() -> None:
    segment = _segment(("yes", 2), ("no", 1), ("well", None), speaker=2)
    told: dict[str, Any] = {**with_merge(segment, 2, 0)}
    assert (told["speaker"], [word.get("speaker") for word in told["words"]]) == (0, [0, 1, None])
    assert with_merge({**segment, "words": None}, 1, 0)["speaker"] == 2


def test_a_segment_of_two_is_divided() -> None:
    segment = _segment(("yes", 0), ("no", 1), ("well", None), ("so", 0), turn=0.9, channel=2)
    parts = parts_of(segment)
    assert [(part["text"], part["speaker"]) for part in parts] == [("yes", 0), ("no well", 1), ("so", 0)]
    assert [(part["start_ms"], part["end_ms"]) for part in parts] == [(0, 400), (500, 1400), (1500, 1900)]
    assert [part.get("turn") for part in parts] == [None, None, 0.9]
    assert {part["channel"] for part in parts} == {2}


def test_a_segment_of_one_stays_whole() -> None:
    for segment in (_segment(("yes", 0), ("no", 0)), _segment(("yes", None)), _segment(("yes", 1), ("no", None))):
        assert parts_of(segment) == [segment]


def test_a_segment_whose_text_was_edited_stays_whole() -> None:
    segment = _segment(("yes", 0), ("no", 1)) | {"text": "something else"}
    assert parts_of(segment) == [segment]
