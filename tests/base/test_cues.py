"""Subtitles: the words of a cue, its times, and where its lines break."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from streamer.base.cues import make_cues
from streamer.base.text import words_of
from streamer.client import transcribe
from tests.transcript_events import final, speech, word

if TYPE_CHECKING:
    from streamer.bridge.service import Service


def test_cues_have_two_lines_of_42_characters() -> None:
    """A long segment is divided. No word is lost, and none is in two cues."""
    words = speech(100, text="wonderful", each_ms=120)
    result = make_cues([final(*words)])
    lines = [line for cue in result for line in cue.lines]
    assert max(map(len, lines)) <= 42
    assert max(len(cue.lines) for cue in result) == 2
    assert " ".join(lines).split() == [each["word"] for each in words]


def test_cues_never_overlap_and_follow_the_words() -> None:
    """Each cue starts with its first word and ends before the next one starts."""
    result = make_cues([final(*speech(60, each_ms=20)), final(*speech(60, start_ms=1300, each_ms=400))])
    assert result[0].start_ms == 0
    for cue, following in pairwise(result):
        assert cue.start_ms <= cue.end_ms <= following.start_ms
    assert all(cue.end_ms - cue.start_ms <= 7000 for cue in result)


def test_cues_of_channels_overlap_only_while_both_speak() -> None:
    """A short answer does not stay on the screen into the words of the other channel; an interruption overlaps."""
    short, long = final(word("yes", 0, 200)), final(word("but", 500, 900), word("no", 900, 1500))
    early = final(word("why", 1200, 1400))
    cues = make_cues([{**short, "channel": 0}, {**long, "channel": 1}, {**early, "channel": 0}])
    assert [(cue.start_ms, cue.end_ms, cue.channel) for cue in cues] == [(0, 420, 0), (500, 1500, 1), (1200, 2200, 0)]


def test_a_pause_ends_a_cue() -> None:
    """Words two seconds apart are not shown together."""
    assert [cue.lines for cue in make_cues([final(word("one", 0, 200), word("two", 2200, 2500))])] == [
        ("one",),
        ("two",),
    ]


def test_a_short_cue_stays_for_a_second_where_there_is_room() -> None:
    """A single short word stays readable, but does not overlap the next cue."""
    alone, next_one = make_cues([final(word("no", 0, 100)), final(word("yes", 600, 700))])
    assert (alone.start_ms, alone.end_ms) == (0, 520)
    assert (next_one.start_ms, next_one.end_ms) == (600, 1600)


@pytest.mark.parametrize(("pause_ms", "gap_ms"), [(0, 80), (300, 80), (499, 80), (500, 500)])
def test_a_gap_between_cues_is_clear_or_long(pause_ms: int, gap_ms: int) -> None:
    """Between two cues are 80 ms, so that the change is seen. A gap that would only flicker is closed to this."""
    first, second = make_cues([final(*speech(6)), final(*speech(6, start_ms=6 * 300 + pause_ms))])
    assert second.start_ms - first.end_ms == gap_ms


def test_a_gap_does_not_take_all_of_a_short_cue() -> None:
    """A cue that is followed after a tenth of a second is still shown."""
    first, second = make_cues([final(word("no", 0, 100)), final(word("yes", 100, 700))])
    assert (first.start_ms, first.end_ms, second.start_ms) == (0, 50, 100)


def test_closing_a_gap_does_not_make_a_cue_too_long() -> None:
    """A cue of seven seconds keeps its length."""
    first, _ = make_cues([final(*speech(7, each_ms=1000, text="slow")), final(word("yes", 7300, 7600))])
    assert first.end_ms - first.start_ms == 7000


def test_without_words_the_time_is_shared_by_length() -> None:
    """If words were left out, the cues of a segment are still within its time."""
    segment = {"text": "abcd " * 40, "start_ms": 1000, "end_ms": 21_000, "words": None}
    result = make_cues([segment])
    assert result[0].start_ms == 1000
    assert result[-1].end_ms == 21_000
    assert sum(len(" ".join(cue.lines).split()) for cue in result) == 40
    assert len(result) > 2


def test_subtitles_have_the_written_form() -> None:
    """Cues have the written form of the words, which may contain spaces."""
    written = [{**word("At", 0, 300), "spoken": "at"}, {**word("3:30 PM", 300, 1500), "spoken": "three thirty p m"}]
    assert [cue.lines for cue in make_cues([final(*written)])] == [("At 3:30 PM",)]


def said(text: str, *, each_ms: int = 300, pauses: dict[str, int] | None = None) -> dict[str, Any]:
    """A final with these words, each with this duration, and with pauses after some of them."""
    words, now = [], 0
    for each in text.split():
        words.append(word(each, now, now + each_ms))
        now += each_ms + (pauses or {}).get(each, 0)
    return final(*words)


def texts(*finals: dict[str, Any]) -> list[str]:
    """The cues, with a bar between lines."""
    return [" | ".join(cue.lines) for cue in make_cues(finals)]


def test_a_line_does_not_end_with_what_belongs_to_the_next_word() -> None:
    """Articles, prepositions and the like stay with the next word, and a phrase begins a line."""
    text = "we walked along the river for an hour and then we came to the old bridge"
    assert texts(said(text)) == ["we walked along the river for an hour | and then we came to the old bridge"]


def test_a_cue_ends_where_the_speaker_pauses() -> None:
    """A pause is a better place for a break than the last one that fits."""
    text = "the night before was cold and clear the snow had stopped and nobody was to be seen on the long white road"
    [first, second] = texts(said(text, pauses={"clear": 600}))
    assert first == "the night before was cold and clear"
    assert second.replace(" |", "").startswith("the snow had stopped")


def test_no_word_is_left_alone() -> None:
    """Words that do not fit one cue are divided so that both cues can be read."""
    text = "this change came about from an adventure we had together on one of the first evenings of that autumn"
    result = make_cues([said(text, each_ms=200)])
    assert len(result) == 2
    assert min(len(" ".join(cue.lines).split()) for cue in result) >= 5
    assert min(cue.end_ms - cue.start_ms for cue in result) >= 1500


def test_no_word_is_alone_in_a_line() -> None:
    """A comma after the first word is no reason to leave it alone in its line."""
    assert texts(said("unfortunately, nobody had seen the extraordinarily old house")) == [
        "unfortunately, nobody had seen | the extraordinarily old house"
    ]


def test_a_cue_stays_until_it_can_be_read() -> None:
    """Words that were said quickly stay longer if nobody speaks after them."""
    text = "extraordinarily complicated circumstances notwithstanding"
    [cue] = make_cues([said(text, each_ms=150)])
    assert cue.end_ms == 1000 * len(text) // 17 + 1
    [first, _] = make_cues([said(text, each_ms=150), final(word("yes", 2000, 2300))])
    assert first.end_ms == 1920


def test_the_name_of_a_channel_takes_room() -> None:
    """With a channel's label, a line still has at most 42 characters."""
    for cue in make_cues([{**said("wonderful " * 40), "channel": 1}]):
        assert len(f"[2] {cue.lines[0]}") <= 42
        assert max(map(len, cue.lines)) <= 42


def test_a_word_longer_than_a_line_is_broken() -> None:
    """A very long word is divided, and nothing is lost."""
    [cue] = make_cues([final(word("ha" * 35, 0, 2000))])
    assert max(map(len, cue.lines)) == 42
    assert "".join(cue.lines) == "ha" * 35


def test_cues_of_real_speech(service: Service, talk: str) -> None:
    """All rules hold for recognised speech: each word once, at its time, readable."""
    transcript = transcribe(talk, service.url).result()
    result = make_cues(transcript.segments)
    assert " ".join(" ".join(cue.lines) for cue in result) == transcript.text
    starts = {each["start_ms"] for each in transcript.words}
    for cue, following in pairwise([*result, None]):
        assert cue is not None
        assert cue.start_ms in starts
        assert 1000 <= cue.end_ms - cue.start_ms <= 7000
        assert len(cue.lines) <= 2
        assert max(map(len, cue.lines)) <= 42
        assert following is None or cue.end_ms <= following.start_ms
        assert sum(map(len, cue.lines)) / (cue.end_ms - cue.start_ms) * 1000 <= 25


def test_a_cue_ends_with_a_sentence() -> None:
    """A break after a full stop is better than one at a phrase; one after a comma is a little better than none."""
    text = "the train was late again that {} she had left the house an hour before and nobody had seen her"
    [unmarked, _] = texts(said(text.format("night")))
    [first, second] = texts(said(text.format("night.")))
    assert not unmarked.endswith("night")
    assert first == "the train was late again that night."
    assert second.startswith("she had left the house")
    assert texts(said("they came to see Mr. Brown, who had been asleep for an hour"))[0].endswith("Mr. Brown,")


def test_a_dictated_line_break_is_no_word() -> None:
    """A dictated line break is not shown, and has no cue of its own."""
    broken = final(word("Dear", 0, 300), word("Ada,", 300, 700), word("\n\n", 700, 1200), word("hello", 1200, 1500))
    assert texts(broken) == ["Dear Ada, hello"]


def test_chinese_and_japanese_have_shorter_lines() -> None:
    """Chinese and Japanese characters count twice, and lines break after their marks."""
    said = "今日は東京にいる。明日は京都へ行く、" * 4
    words = [word(each, 120 * place, 120 * place + 100) for place, each in enumerate(words_of(said))]
    result = make_cues([final(*words)])
    lines = [line for cue in result for line in cue.lines]
    assert "".join(lines) == said
    assert max(map(len, lines)) <= 21
    assert all(line[-1] in "。、" for line in lines)
    assert [cue.lines for cue in make_cues([{**final(*words), "words": None, "text": said}])] == [
        cue.lines for cue in result
    ]
