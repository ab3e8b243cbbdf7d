"""The end of turns in a stream, with a model that hears exactly and a judge that knows which words are complete."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.endpointing import EndpointRule
from streamer.engine.models.streaming_model import ModelState
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_events import Cut, Final, Heard, StreamEvent, Turn
from streamer.engine.stream_options import StreamOptions
from streamer.engine.turn.turn_watch import frames_to_end
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import HearingModel, hear, one, pieces, talk, text

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
