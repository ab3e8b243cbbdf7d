"""The endpoint rule."""

from __future__ import annotations

import pytest

from streamer.engine.endpointing import EndpointRule, SegmentEnd
from streamer.engine.search.search import Hypothesis, HypothesisWord

FRAME_MS = 40.0
RULE = EndpointRule()


def word(start: int, end: int) -> HypothesisWord:
    return HypothesisWord("a", start, end, 1.0)


def found(words: list[HypothesisWord], running: tuple[int, int] | None = None) -> Hypothesis:
    return Hypothesis(tuple(words), len(words), running)


def test_silence_after_text_ends_a_segment() -> None:
    """One second after the last word, the segment ends at a place a little before."""
    assert RULE.segment_end(found([word(5, 10)]), 34, FRAME_MS) is None
    assert RULE.segment_end(found([word(5, 10)]), 35, FRAME_MS) == SegmentEnd(27, silence=True)


def test_silence_without_text_takes_longer() -> None:
    """After 2.4 s without a word a new segment starts."""
    assert RULE.segment_end(found([]), 59, FRAME_MS) is None
    assert RULE.segment_end(found([]), 60, FRAME_MS) == SegmentEnd(52, silence=True)


def test_the_longest_segment_ends_at_the_widest_late_gap() -> None:
    """The cut lies in the middle of the widest gap of the last five seconds, not in an earlier one."""
    words = [word(0, 100), word(120, 390), word(400, 430), word(436, 470), word(472, 499)]
    assert RULE.segment_end(found(words), 500, FRAME_MS) == SegmentEnd(395, silence=False)
    late = [word(0, 370), word(374, 430), word(436, 470), word(471, 499)]
    assert RULE.segment_end(found(late), 500, FRAME_MS) == SegmentEnd(433, silence=False)


def test_a_word_that_is_being_heard_is_no_silence() -> None:
    """A word that has begun but cannot be named yet is neither a silence nor a gap."""
    assert RULE.segment_end(found([word(5, 10)], running=(20, 34)), 35, FRAME_MS) is None
    assert RULE.segment_end(found([word(5, 10)], running=(20, 34)), 59, FRAME_MS) == SegmentEnd(51, silence=True)
    words = [word(0, 100), word(120, 390), word(400, 430)]
    assert RULE.segment_end(found(words, running=(436, 500)), 500, FRAME_MS) == SegmentEnd(395, silence=False)


def test_a_segment_of_one_word_ends_where_it_is() -> None:
    """With no gap to cut at, the longest segment ends after its last word."""
    assert RULE.segment_end(found([word(0, 500)]), 500, FRAME_MS) == SegmentEnd(500, silence=False)


def test_the_first_word_is_not_cut_in_two() -> None:
    """Speech that begins at the end of a long silence is not cut off, but moves to the next segment."""
    assert RULE.segment_end(found([word(494, 500)]), 500, FRAME_MS) == SegmentEnd(486, silence=False)
    assert RULE.segment_end(found([word(400, 430), word(432, 500)]), 500, FRAME_MS) == SegmentEnd(431, silence=False)
    assert RULE.settled([word(400, 430)], FRAME_MS) == 0


def test_settled_words_survive_any_cut() -> None:
    """Words that start before the stretch of gaps are settled; those in it may move to the next segment."""
    words = [word(0, 100), word(370, 390), word(400, 430)]
    assert RULE.settled(words, FRAME_MS) == 2
    for frames in range(500, 520):
        ending = RULE.segment_end(found([*words, word(440, frames)]), frames, FRAME_MS)
        assert ending is not None
        assert ending.frame >= 390


def test_a_silence_is_wordless_and_quiet() -> None:
    """Activity without a word keeps the segment open, and quiet alone does not end it."""
    words = found([word(5, 10)])
    assert RULE.segment_end(words, 36, FRAME_MS, quiet=4) is None
    assert RULE.segment_end(words, 30, FRAME_MS, quiet=20) is None
    assert RULE.segment_end(words, 36, FRAME_MS, quiet=26) == SegmentEnd(23, silence=True)
    assert RULE.segment_end(found([]), 64, FRAME_MS, quiet=2) is None


def test_the_cut_lies_in_the_quiet() -> None:
    """However short the quiet before a cut is, the cut lies within it and after the last word."""
    for silent in range(400, 3000, 40):
        rule = EndpointRule(after_text_ms=silent)
        for quiet in range(10, 80):
            frames = 10 + silent // 40
            ending = rule.segment_end(found([word(5, 10)]), frames, FRAME_MS, quiet)
            assert ending is not None
            assert max(10, frames - quiet) < ending.frame <= frames - 5


def test_noise_that_is_taken_for_speech_ends_too() -> None:
    """If no word comes for long in spite of activity, the words decide."""
    late = 35 + RULE.patience_ms // 40
    assert RULE.segment_end(found([word(5, 10)]), late - 1, FRAME_MS, quiet=0) is None
    assert RULE.segment_end(found([word(5, 10)]), late, FRAME_MS, quiet=0) == SegmentEnd(late - 8, silence=True)


def test_without_silence_only_the_longest_length_cuts() -> None:
    """Without the silence rule only the maximum length cuts, in a gap as always."""
    rule = EndpointRule(silence=False)
    words = [word(0, 100), word(120, 390)]
    assert rule.segment_end(found(words), 499, FRAME_MS) is None
    assert rule.segment_end(found(words), 499, FRAME_MS, quiet=109) is None
    assert rule.segment_end(found(words), 500, FRAME_MS, quiet=110) == SegmentEnd(445, silence=False)


def test_the_longest_segment_without_a_word_is_cut_too() -> None:
    """Without words the cut lies a little back, as a word may have begun; a running word moves to the next segment."""
    rule = EndpointRule(silence=False)
    assert rule.segment_end(found([]), 500, FRAME_MS) == SegmentEnd(492, silence=False)
    assert rule.segment_end(found([]), 500, FRAME_MS, quiet=500) == SegmentEnd(492, silence=False)
    assert rule.segment_end(found([], running=(480, 500)), 500, FRAME_MS, quiet=0) == SegmentEnd(480, silence=False)


def test_the_newest_audio_is_no_gap() -> None:
    """The gap after the last word counts only if it was quiet, because a word may just have begun."""
    words = found([word(0, 380), word(384, 430), word(432, 490)])
    assert RULE.segment_end(words, 500, FRAME_MS) == SegmentEnd(382, silence=False)
    assert RULE.segment_end(words, 500, FRAME_MS, quiet=10) == SegmentEnd(495, silence=False)


def test_limits_that_cannot_work_are_refused() -> None:
    """A silence no longer than the look-back, or a longest segment inside its stretch of gaps, is an error."""
    with pytest.raises(ValueError, match="look-back"):
        EndpointRule(after_text_ms=320)
    with pytest.raises(ValueError, match="longest segment"):
        EndpointRule(longest_ms=5000)
