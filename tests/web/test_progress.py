"""How the client counts on when another session of the service goes on: pure, fed with messages."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

FEED = """async ({messages, restartAfter = -1, asked = false, options = {}}) => {
    const {Progress} = await load("progress");
    const progress = new Progress(options);
    progress.seen = 1;
    const told = [];
    let restarted = null;
    messages.forEach((message, number) => {
        told.push(...progress.receive(message, asked));
        if (number === restartAfter) {
            const {settledMs} = progress;
            restarted = {fromMs: settledMs, segment: progress.restart(settledMs * 32, settledMs)};
        }
    });
    return {told, restarted, settled: progress.settledMs, present: progress.present, believed: progress.believe()};
}"""


def final(n: int, segment: int, start: int, end: int, heard: int, cut: int = 0) -> dict[str, Any]:
    word = {"word": "a", "start_ms": start, "end_ms": end, "confidence": 1}
    return {
        "type": "final", "n": n, "segment": segment, "text": "a", "start_ms": start, "end_ms": end, "audio_ms": heard,
        "words": [word], "cut_ms": cut or heard,
    }  # fmt: skip


def heard(n: int, ms: int) -> dict[str, Any]:
    return {"type": "heard", "n": n, "audio_ms": ms}


async def test_times_segments_and_numbers_go_on(bench: Page) -> None:
    """All times are later, also those of words; how long something lasted is no time."""
    messages = [
        final(2, 0, 500, 3000, 4000, 3520),
        {"type": "partial", "n": 3, "segment": 1, "text": "b", "stable": 0, "start_ms": 4200, "audio_ms": 4800},
        {"type": "partial", "n": 2, "segment": 0, "text": "b c", "stable": 0, "start_ms": 700, "audio_ms": 1500},
        {"type": "recovered", "n": 3, "gap_ms": 123},
        final(4, 0, 700, 2000, 3000),
    ]
    result = await bench.evaluate(FEED, {"messages": messages, "restartAfter": 1})
    assert result["restarted"] == {"fromMs": 3520, "segment": 1}
    assert [message["n"] for message in result["told"]] == [2, 3, 4, 5, 6]
    partial, recovered, last = result["told"][2:]
    assert (partial["segment"], partial["start_ms"], partial["audio_ms"]) == (1, 4220, 5020)
    assert recovered["gap_ms"] == 123
    assert (last["segment"], last["start_ms"], last["end_ms"], last["audio_ms"]) == (1, 4220, 5520, 6520)
    assert (last["words"][0]["start_ms"], last["words"][0]["end_ms"]) == (4220, 5520)
    assert last["words"][0]["confidence"] == 1
    assert result["present"] == {"place": 3520 * 32, "after": 4, "flushes": 0}


async def test_a_message_that_comes_again_is_not_told_again(bench: Page) -> None:
    """Numbers only rise."""
    messages = [heard(2, 100), heard(3, 200), heard(2, 100), heard(3, 200), heard(4, 300)]
    result = await bench.evaluate(FEED, {"messages": messages})
    assert [message["n"] for message in result["told"]] == [2, 3, 4]


@pytest.mark.parametrize(
    ("messages", "settled"),
    [
        ([final(2, 0, 500, 3000, 4000, 3520)], 3520),
        ([final(2, 0, 500, 3000, 3500, 3480), {"type": "flushed", "n": 3, "audio_ms": 3500}], 3500),
        ([heard(2, 60_000)], 30_000),  # nothing was said: no segment reaches so far back
    ],
)
async def test_where_another_session_would_begin(bench: Page, messages: list[Any], settled: int) -> None:
    """After the last word of the last final and before anything that may still become one."""
    result = await bench.evaluate(FEED, {"messages": messages})
    assert result["settled"] == settled


async def test_a_final_that_may_be_cut_in_a_word_waits_for_what_follows(bench: Page) -> None:
    """Anything else shows that the service goes on; a session that begins anew hears it again."""
    abrupt = [final(2, 0, 500, 3950, 4000), {"type": "speech", "n": 3, "state": "end", "at_ms": 3950}]
    waiting = await bench.evaluate(FEED, {"messages": abrupt})
    assert waiting["told"] == []
    assert waiting["believed"] == abrupt
    followed = await bench.evaluate(FEED, {"messages": [*abrupt, heard(4, 4300)]})
    assert [message["n"] for message in followed["told"]] == [2, 3, 4]
    anew = await bench.evaluate(FEED, {"messages": [*abrupt, final(2, 0, 500, 3950, 5000)], "restartAfter": 1})
    assert anew["restarted"] == {"fromMs": 0, "segment": 0}
    assert [(message["type"], message["audio_ms"]) for message in anew["told"]] == [("final", 5000)]
    asked = await bench.evaluate(FEED, {"messages": abrupt, "asked": True})
    assert asked["told"] == abrupt
