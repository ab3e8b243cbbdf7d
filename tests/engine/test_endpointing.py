"""The endpoint rule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Cut, Final, Heard, StreamEvent, Turn
from streamer.base.limits import EAGERNESSES
from streamer.engine.acoustics.streaming_model import ModelState
from streamer.engine.endpointing import FLUENT_MS, LOOK_MS, EndpointRule, SegmentEnd, TurnRule, frames_to_end
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Hypothesis, HypothesisWord
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import HearingModel, hear, one, pieces, talk, text

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


OVER = (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)


@pytest.mark.parametrize("eagerness", EAGERNESSES)
def test_the_likelier_the_end_the_shorter_the_pause(eagerness: str) -> None:
    """The pause never grows with the probability, is at least what is judged, and at most the longest one."""
    pauses = [TurnRule(eagerness, 1500).pause_ms(over) for over in OVER]
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] == 1500
    assert LOOK_MS <= pauses[-1] < 1000


def test_eager_rules_wait_less() -> None:
    """With the same words, `high` never waits longer than `medium`, nor `medium` longer than `low`."""
    for over in OVER:
        low, medium, high = (TurnRule(eagerness, 10_000).pause_ms(over) for eagerness in EAGERNESSES)
        assert high <= medium <= low
    assert TurnRule("high").pause_ms(0.5) < TurnRule("medium").pause_ms(0.5) < TurnRule("low").pause_ms(0.5)


def test_who_has_just_paused_may_pause_for_longer() -> None:
    """The shorter the time since the pause before, the longer the pause; without one, only the words count."""
    for rule, over in itertools.product(map(TurnRule, EAGERNESSES), OVER):
        pauses = [rule.pause_ms(over, spoken_ms) for spoken_ms in (0, 300, 1000, FLUENT_MS, 9000, None)]
        assert pauses == sorted(pauses, reverse=True)
        assert len(set(pauses[3:])) == 1
        assert pauses[0] <= rule.longest_pause_ms
    assert TurnRule().pause_ms(0.7, 300) > TurnRule().pause_ms(0.7)


def test_the_longest_pause_bounds_every_rule() -> None:
    """No pause is longer, even if the words say that more will come."""
    assert {TurnRule(eagerness, 400).pause_ms(0.0) for eagerness in EAGERNESSES} == {400}


TURNS = StreamOptions(endpoint=EndpointRule(turn=True, longest_pause_ms=2000), turns=True, step_ms=160)


def judge(words: Sequence[str]) -> float:
    """Return the probability that a turn is over: great after *z*, and a half after *y*."""
    return {"z": 0.999, "y": 0.6}.get(words[-1][-1], 0.001)


class Judge:
    """The judge of turns in place of a punctuation model."""

    def __init__(self, over: Callable[[Sequence[str]], float]) -> None:
        self.over = over


def make(over: Callable[[Sequence[str]], float] | None = judge) -> Recogniser:
    searches = {"lexicon": GreedySearch(UNITS, 1)}
    return Recogniser(HearingModel(), searches, slots=1, punctuation=Judge(over) if over else None)  # type: ignore[arg-type]


def finals(events: Sequence[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def states(events: Sequence[StreamEvent]) -> list[tuple[str, int]]:
    return [(event.state, event.segment) for event in events if isinstance(event, Turn)]


def test_complete_words_end_a_turn_sooner() -> None:
    """The final comes soon after a complete sentence, and after the longest pause where more is expected."""
    for last, soonest, latest in (("z", 300, 700), ("b", 2000, 2500)):
        [final, _] = finals(hear(make(), [say("abc a" + last), silence(2600), say("cab")], TURNS))
        assert final.text == "abc a" + last
        assert soonest <= final.audio_ms - final.end_ms <= latest
        assert final.turn == judge([last])


def test_a_pause_within_a_turn_does_not_end_it() -> None:
    """After an incomplete sentence the speaker may pause; after a complete one the next words are another turn."""
    pause = silence(1000)
    assert [final.text for final in finals(hear(make(), [say("ab"), pause, say("cz")], TURNS))] == ["ab cz"]
    assert [final.text for final in finals(hear(make(), [say("az"), pause, say("cz")], TURNS))] == ["az", "cz"]


def test_a_probable_end_is_announced_and_taken_back() -> None:
    """`eager` comes when the speaker pauses, `resumed` when they go on, `end` with the final."""
    low = replace(TURNS, endpoint=replace(TURNS.endpoint, eagerness="low"))
    events = hear(make(), [say("ay"), silence(800), say("cz"), silence(1500), say("ay")], low)
    assert states(events) == [("eager", 0), ("resumed", 0), ("eager", 0), ("end", 0)]
    kinds = [event.type for event in events if isinstance(event, (Final, Turn, Cut))]
    assert kinds == ["turn", "turn", "turn", "final", "turn", "cut", "final", "cut"]
    assert [final.turn for final in finals(events)] == [0.999, None]  # the end of the audio ended the last one
    told = [event.audio_ms for event in events if isinstance(event, Turn)]
    assert told == sorted(told)


def test_turns_are_said_only_if_asked_for() -> None:
    """Without `turns` the finals are the same, and no event says more."""
    audio = [say("ay"), silence(2500), say("cz"), silence(900)]
    asked, quiet = (hear(make(), audio, replace(TURNS, turns=turns)) for turns in (True, False))
    assert [event for event in asked if not isinstance(event, Turn)] == quiet
    assert not states(hear(make(), audio, StreamOptions(turns=True)))


def test_without_a_judge_the_silence_decides() -> None:
    """All turns end after the same pause, which depends on the eagerness."""
    waits: list[int] = []
    for eagerness in ("high", "medium", "low"):
        options = replace(TURNS, endpoint=replace(TURNS.endpoint, eagerness=eagerness))
        lengths = {
            final.audio_ms - final.end_ms
            for last in "bz"
            for final in finals(hear(make(None), [say("a" + last), silence(3000)], options))
        }
        assert len(lengths) == 1
        waits += lengths
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]


@pytest.mark.parametrize(
    ("pause_ms", "paused_ms", "frames"),
    [(300, 200, 3), (320, 200, 3), (321, 200, 4), (480, 200, 7), (481, 200, 0), (900, 200, 0), (200, 200, 0)],
)
def test_how_much_of_a_step_ends_a_turn(pause_ms: float, paused_ms: float, frames: int) -> None:
    """The part of a step that ends a turn has whole frames, and fewer than the step."""
    assert frames_to_end(pause_ms, paused_ms, 40.0, 8) == frames


LONG = replace(TURNS, step_ms=640)


def until_due(recogniser: Recogniser, audio: NDArray[np.int16]) -> int:
    """Give a recogniser steps until it reports a sample before the end of the next one, and return that sample."""
    recogniser.open(1, LONG)
    for start in range(0, len(audio), 640 * 16):
        heard = one(recogniser, Chunk(1, audio[start : start + 640 * 16]))[-1]
        assert isinstance(heard, Heard)
        if heard.due is not None:
            assert start + 640 * 16 < heard.due < start + 2 * 640 * 16
            return heard.due
    raise AssertionError("no turn may end within a step")


def test_a_turn_ends_within_a_step() -> None:
    """A turn ends within a step: the event has `due`, and the final comes with the sample at `due`."""
    recogniser, audio = make(), np.concatenate([say("abc ay"), silence(3000)])
    due = until_due(recogniser, audio)
    arrived = due // (640 * 16) * 640 * 16
    assert finals(one(recogniser, Chunk(1, audio[arrived : due - 1]))) == []
    told = one(recogniser, Chunk(1, audio[due - 1 : due]))
    assert [event.type for event in told] == ["final", "turn", "cut", "heard"]
    [final] = finals(told)
    assert (final.text, final.audio_ms) == ("abc ay", due // 16)
    [cut] = [event for event in told if isinstance(event, Cut)]
    assert final.end_ms * 16 < cut.sample < due
    assert isinstance(told[-1], Heard)
    assert told[-1].due is None


def test_who_goes_on_within_a_step_ends_no_turn() -> None:
    """Speech in the last frame that the turn still needs belongs to the same turn."""
    quiet = np.concatenate([say("abc ay"), silence(3000)])
    due = until_due(make(), quiet)
    audio = np.concatenate([quiet[: due - 640], say("abz"), silence(3000)])
    [final] = finals(hear(make(), [audio], LONG))
    assert final.text == "abc ay abz"


class Blind(HearingModel):
    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        raise RuntimeError("no light")


def test_a_glance_that_fails_ends_its_stream_alone() -> None:
    """A glance that fails closes its stream, and the other stream of the batch gets its events."""
    recogniser = Recogniser(Blind(), {"lexicon": GreedySearch(UNITS, 2)}, slots=2, punctuation=Judge(judge))  # type: ignore[arg-type]
    recogniser.open(1, LONG)
    recogniser.open(2, replace(LONG, endpoint=EndpointRule()))
    audio = np.concatenate([say("abc ay"), silence(3000)])
    answers = dict(recogniser.step([Chunk(1, audio), Chunk(2, audio)]))
    assert str(answers[0]) == "failed: the model could not detect the end of a turn: no light"
    assert text(answers[1]) == "abc ay"  # type: ignore[arg-type]
    assert recogniser.live == 1


def test_a_model_that_cannot_look_ahead_ends_turns_with_steps() -> None:
    """A model without glances ends turns only at the ends of steps."""
    searches = {"lexicon": GreedySearch(UNITS, 1)}
    recogniser = Recogniser(ExactModel(), searches, slots=1, punctuation=Judge(judge))  # type: ignore[arg-type]
    audio = np.concatenate([say("abc ay"), silence(3000)])
    recogniser.open(1, LONG)
    told = [event for part in np.split(audio, [9999, 30_000]) for event in one(recogniser, Chunk(1, part))]
    assert all(event.due is None for event in told if isinstance(event, Heard))
    assert [final.audio_ms % 640 for final in finals(told)] == [0]


@pytest.mark.parametrize("seed", range(4))
def test_any_chunking_gives_the_same_turns(seed: int) -> None:
    """Every word is in one final, and all events are the same however the audio is divided."""
    dice = random.Random(seed)
    words, audio = talk(seed, words=20)  # turns end within steps and with them
    rule = replace(TURNS.endpoint, eagerness=dice.choice(["low", "medium", "high"]), longest_pause_ms=700)
    options = replace(TURNS, step_ms=dice.choice([160, 320, 640]), endpoint=rule)
    recogniser = make(lambda spoken: len(spoken[-1]) / 7)
    audio = np.concatenate([audio, silence(3000)])[: 16_000 * 29]
    events = hear(recogniser, [audio], options)
    assert hear(recogniser, pieces(audio, dice), options) == events
    assert words.startswith(text(events)[:-6])  # the audio is cut off within a word
    assert {state for state, _ in states(events)} >= {"eager", "end"}
    ends = [final.audio_ms % options.step_ms for final in finals(events) if final.turn is not None]
    assert any(ends)


def test_a_segment_of_the_greatest_length_ends_no_turn() -> None:
    """The final of a segment of the greatest length has no `turn`."""
    long = replace(TURNS, endpoint=replace(TURNS.endpoint, longest_ms=6000))
    events = hear(make(), np.array_split(say("abcd efgh " * 12), 3), long)
    assert len(finals(events)) > 1
    assert all(final.turn is None for final in finals(events))
    assert not states(events)
