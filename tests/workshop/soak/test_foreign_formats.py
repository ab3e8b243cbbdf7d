"""Sessions of the soak test in foreign formats: their plans, and the checks of what came back."""

from __future__ import annotations

from collections import Counter

import pytest

from workshop.soak import foreign_session
from workshop.soak.foreign_formats import SESSIONS, check_foreign
from workshop.soak.foreign_session import (
    FORMATS,
    NATIVE,
    ForeignSession,
    TriedAgain,
    closed,
    draw_foreign_plan,
    draw_format,
    plain,
)
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.session_plan import SessionPlan

FOREIGN = sorted(set(FORMATS) - {NATIVE})


def test_every_format_has_its_share() -> None:
    """The seed decides; each format occurs, and each has a client."""
    drawn = Counter(draw_format(1, number) for number in range(500))
    assert set(drawn) == set(FORMATS)
    assert set(SESSIONS) == set(FOREIGN)
    assert drawn[NATIVE] > 200


@pytest.mark.parametrize("format", FOREIGN)
def test_a_seed_repeats_a_session(format: str) -> None:
    """The same seed and number give the same session."""
    first, again = draw_foreign_plan(3, 7, format), draw_foreign_plan(3, 7, format)
    assert (first.options, first.audio, first.items) == (again.options, again.audio, again.items)
    assert draw_foreign_plan(3, 8, format).audio != first.audio


def heard(words: list[str], ended: str = "done") -> SessionRecord:
    """A session that got these words."""
    plan = next(plan for plan in map(a_plan, range(50)) if plan.ends == {"done"} and len(plan.speeches[0].words) > 3)
    record = SessionRecord(plan)
    record.sent, record.ended = len(plan.audio), ended
    spoken = [said.text for said in plan.speeches[0].words]
    told = [{"word": spoken[int(word)] if word.isdigit() else word} for word in words]
    told += [{"word": word} for word in spoken[4:]]
    record.events = [(0.0, {"type": "final", "n": 0, "words": told})]
    return record


def a_plan(number: int) -> SessionPlan:
    return draw_foreign_plan(1, number, "deepgram")


@pytest.mark.parametrize(
    ("words", "ended", "fault"),
    [
        (["0", "1", "2", "3"], "done", ""),
        (["0", "2", "3"], "done", "words are missing"),
        (["0", "1", "1", "2", "3"], "done", "not those that were spoken"),
        (["1", "0", "2", "3"], "done", "not those that were spoken"),
        (["0", "1", "abcaa", "2", "3"], "done", "not those that were spoken"),
        (["0", "1", "2", "3"], "failed", "it ended with 'failed'"),
    ],
)
def test_errors_are_found(words: list[str], ended: str, fault: str) -> None:
    """A word that is lost, doubled, of another session or out of order, and an end without a reason."""
    broken = check_foreign(heard(words, ended), disturbed=False).broken
    assert [fault in sentence for sentence in broken][:1] == ([True] if fault else [])


def test_what_differs_in_form_only() -> None:
    """Marks and capitals do not count, and closes are read as what they mean."""
    assert plain("Hello, world.") == "hello world"
    assert (closed(1000, ""), closed(1011, "The recogniser failed (overdue)")) == ("done", "failed")
    assert closed(1011, "NET-0001") == "close 1011 NET-0001"


class Insistent(ForeignSession):
    """A session that is refused twice, after it has counted something."""

    counted = 0

    async def converse(self) -> str:
        self.counted += 1
        self.record.sent += 1
        if self.record.sent < 3:
            raise TriedAgain("full")
        return f"counted {self.counted}"


async def test_each_connection_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted in a connection that was refused does not count in the next one. The record stays."""
    monkeypatch.setattr(foreign_session, "PAUSE_S", (0.0, 0.0))
    session = Insistent(a_plan(1), "ws://127.0.0.1:1", 0.0)
    record = await session.run()
    assert (record.ended, record.sent, record.refusals["full"]) == ("counted 1", 3, 2)
