"""Who says which words: the page finds the same as the command line, and keeps it through changes."""

from __future__ import annotations

import json
import random
from typing import Any

from playwright.async_api import Page

from streamer.base.speakers import TimedTurn, parts_of, with_turns
from tests.transcript_events import final, word


async def of_page(bench: Page, script: str, value: object) -> Any:
    """What this script makes of a value with the functions of the module."""
    return json.loads(
        await bench.evaluate(
            f"""async (value) => {{
                const speakers = await load("page/transcript/speakers");
                return JSON.stringify((({script}))(speakers, JSON.parse(value)));
            }}""",
            json.dumps(value),
        )
    )


def said(dice: random.Random) -> dict[str, Any]:
    """A segment with words, without them, or with others than its text has."""
    times = [300 * at + dice.choice([0, 0, 2000]) for at in range(dice.randint(1, 8))]
    words = [{**word(f"word{at}", start, start + 250), "confidence": 0.5} for at, start in enumerate(sorted(times))]
    for each in words:
        if dice.random() < 0.6:
            each["speaker"] = dice.randint(0, 2)
    segment: dict[str, Any] = {**final(*words), **({"turn": 0.9} if dice.random() < 0.3 else {}), "speaker": 0}
    if dice.random() < 0.2:
        segment["words"] = None
    elif dice.random() < 0.2:
        segment["text"] += "!"
    return segment


async def test_the_page_finds_the_same_speakers(shared_bench: Page) -> None:
    """Turns give words the same speakers as elsewhere, and segments are divided into the same parts."""
    dice = random.Random(5)
    cases: list[tuple[dict[str, Any], list[dict[str, int]]]] = []
    for _ in range(200):
        starts = [dice.randint(0, 4000) for _ in range(dice.randint(0, 5))]
        turns = [{"start_ms": at, "end_ms": at + dice.randint(1, 1500), "speaker": dice.randint(0, 2)} for at in starts]
        cases.append((said(dice), turns))
    script = "({withTurns, partsOf}, cases) => cases.map(([said, turns]) => [partsOf(said), withTurns(said, turns)])"
    for (segment, turns), (parts, told) in zip(cases, await of_page(shared_bench, script, cases), strict=True):
        assert parts == parts_of(segment)
        assert told == with_turns(segment, [TimedTurn(**turn) for turn in turns])


async def test_other_numbers(shared_bench: Page) -> None:
    """Every speaker of a segment gets another number; a word without one stays so."""
    words = [{**word("one", 0, 300), "speaker": 1}, word("two", 300, 600)]
    script = "({renumbered}, segment) => renumbered(segment, (speaker) => speaker + 4)"
    fresh = await of_page(shared_bench, script, {**final(*words), "speaker": 1})
    assert (fresh["speaker"], fresh["words"][0]["speaker"]) == (5, 5)
    assert "speaker" not in fresh["words"][1]


async def test_another_session_has_new_numbers(shared_bench: Page) -> None:
    """Speakers of a session that was begun later, or again, get new numbers; a second look is its own."""
    told = await shared_bench.evaluate(
        """async ([one, two, turns]) => {
            const {Sheet} = await load("page/transcript/sheet");
            const sheet = new Sheet();
            sheet.begin();
            sheet.take(one);
            sheet.take({type: "restarted", fromMs: 2000, segment: 1});
            sheet.take(two);
            sheet.take({type: "speakers", turns});
            const row = ({speaker, words}) => [speaker, ...words.map((word) => word.speaker)];
            const numbers = () => sheet.segments.map(row);
            const restarted = numbers();
            sheet.begin(5000);
            sheet.take(one);
            sheet.take({type: "speakers", turns: turns.map((turn) => ({...turn, start_ms: 0, speaker: 1}))});
            const before = numbers();
            sheet.take({type: "speaker_merge", speaker: 1, into: 0});
            return [restarted, before, numbers()];
        }""",
        [
            {**final({**word("one", 0, 300), "speaker": 0}), "speaker": 0},
            {**final({**word("two", 2100, 2400), "speaker": 0}), "speaker": 0},
            [{"start_ms": 2000, "end_ms": 3000, "speaker": 1}],
        ],
    )
    assert told == [[[0, 0], [2, 2]], [[0, 0], [2, 2], [4, 4]], [[0, 0], [2, 2], [3, 3]]]
