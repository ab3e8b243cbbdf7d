"""Rules for the end of a turn, applied to recorded steps."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.acoustics.activity import ActivityRule, ActivityTracker
from streamer.engine.endpointing import PATIENCE, EndpointRule
from streamer.engine.search.search import Hypothesis, HypothesisWord
from workshop.turns import RecordedTurn, SpokenTurn, Step, end_ms, figures, rules, table

STEP_FRAMES = 4
FRAME_MS = 40


def recorded(
    words: list[tuple[str, int, int]], *, frames: int, hesitates: bool = False, frame_ms: int = FRAME_MS
) -> RecordedTurn:
    """A turn with these words (text, first and last frame) that are known at once, and as many frames in all."""
    steps, tracker = [], ActivityTracker(ActivityRule(frame_ms=frame_ms))
    for heard in range(STEP_FRAMES, frames + 1, STEP_FRAMES):
        known = tuple(HypothesisWord(text, start, end, 1.0) for text, start, end in words if end <= heard)
        own = range(heard - STEP_FRAMES, heard)
        loud = [any(start <= frame < end for _, start, end in words) for frame in own]
        activity = tracker.reading([float(one) for one in loud])
        steps.append(Step(Hypothesis(known, 0), activity, [*loud, True].index(True)))
    return RecordedTurn(SpokenTurn("c", hesitates, np.zeros(0, np.int16), words[-1][2] * frame_ms), steps, frame_ms)


def judge(words: list[str] | tuple[str, ...]) -> float:
    return 0.99 if words[-1] == "light" else 0.01


PAUSING = recorded([("turn", 0, 10), ("on", 10, 20), ("the", 50, 54), ("light", 54, 64)], frames=160)


def test_when_a_rule_ends_a_turn() -> None:
    """Silences end it in the pause of 1200 ms or after the last word; words that are incomplete do not end it."""
    assert end_ms(PAUSING, EndpointRule(500), None) == 1440  # the pause begins at 800 ms, and a step has 160 ms
    assert end_ms(PAUSING, EndpointRule(1500), None) == 2560 + 1600
    turn = EndpointRule(turn=True)
    ended = end_ms(PAUSING, turn, judge)  # type: ignore[arg-type]
    assert ended is not None
    assert 2560 < ended <= 2560 + 480
    # The pause ends it within a step.
    assert end_ms(PAUSING, turn, lambda _: 0.99) == 800 + PATIENCE["medium"].surely_ms == 1160


def test_times_are_those_of_the_frames() -> None:
    """A rule in milliseconds counts frames of 48 ms as such: a pause of 1200 ms has 25 of them."""
    words = [("turn", 0, 8), ("on", 8, 17), ("the", 42, 45), ("light", 45, 53)]
    longer = recorded(words, frames=132, frame_ms=48)
    assert end_ms(longer, EndpointRule(500), None) == 1344  # the pause begins at 816 ms, and a step has 192 ms
    assert end_ms(longer, EndpointRule(turn=True), lambda _: 0.99) == 816 + 384  # 8 frames are 360 ms or more


def test_nothing_ends_what_was_not_recognised() -> None:
    """A turn without recognised words has no end."""
    tracker = ActivityTracker(ActivityRule())
    steps = [Step(Hypothesis((), 0), tracker.reading([0.0] * STEP_FRAMES), STEP_FRAMES) for _ in range(40)]
    silent = RecordedTurn(PAUSING.turn, steps, FRAME_MS)
    assert end_ms(silent, EndpointRule(500), None) is None


def test_the_table_has_every_rule() -> None:
    """A cut turn has no delay; turns with a further pause have a column of their own."""
    straight = recorded([("the", 0, 10), ("light", 10, 20)], frames=100)
    hesitating = RecordedTurn(SpokenTurn("c", True, PAUSING.turn.audio, PAUSING.turn.end_ms), PAUSING.steps, FRAME_MS)
    row = figures("short", EndpointRule(500), [straight, hesitating], None)
    assert (row.cut_percent, row.cut_hesitating_percent) == (0.0, 100.0)
    assert row.delay_ms_median == pytest.approx(500, abs=160)
    lines = table([figures(name, rule, [straight, hesitating], judge) for name, rule in rules()]).splitlines()  # type: ignore[arg-type]
    assert len(lines) == 2 + 5 + 3
    assert lines[-2].startswith("| turn, medium | 0.0 % | 0.0 % |")
