"""The end of turns in a stream, with a model that hears exactly and a judge that knows which words are complete."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from streamer.engine.endpointing import EndpointRule
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_events import Cut, Final, StreamEvent, Turn
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import HearingModel, hear, pieces, talk, text

TURNS = StreamOptions(endpoint=EndpointRule(turn=True, longest_pause_ms=2000), turns=True, step_ms=160)


def judge(words: Sequence[str]) -> float:
    """A turn is over after *z*, and perhaps after *y*."""
    return {"z": 0.999, "y": 0.6}.get(words[-1][-1], 0.001)


class Judge:
    """Stands for the punctuation model, of which only this is asked here."""

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


@pytest.mark.parametrize("seed", range(4))
def test_any_chunking_gives_the_same_turns(seed: int) -> None:
    """Every word is in one final, and all events are the same however the audio is divided."""
    dice = random.Random(seed)
    words, audio = talk(seed, words=20)
    rule = replace(TURNS.endpoint, eagerness=dice.choice(["low", "medium", "high"]), longest_pause_ms=700)
    options = replace(TURNS, step_ms=dice.choice([160, 320, 640]), endpoint=rule)
    recogniser = make(lambda spoken: len(spoken[-1]) / 7)
    audio = np.concatenate([audio, silence(3000)])[: 16_000 * 29]
    events = hear(recogniser, [audio], options)
    assert hear(recogniser, pieces(audio, dice), options) == events
    assert words.startswith(text(events)[:-6])  # the audio is cut off within a word
    assert {state for state, _ in states(events)} >= {"eager", "end"}


def test_a_segment_of_the_greatest_length_ends_no_turn() -> None:
    """Its final says nothing about the turn."""
    long = replace(TURNS, endpoint=replace(TURNS.endpoint, longest_ms=6000))
    events = hear(make(), np.array_split(say("abcd efgh " * 12), 3), long)
    assert len(finals(events)) > 1
    assert all(final.turn is None for final in finals(events))
    assert not states(events)
