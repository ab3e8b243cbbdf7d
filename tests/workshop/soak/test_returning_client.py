"""The client of the network soak: it is the shipped one, and its record is what the checks of all sessions read."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from streamer.bridge.service import Service
from workshop.soak.returning_client import ReturningClient
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.session_check import check
from workshop.soak.session_plan import RETURNING, Action, SessionPlan, draw_live_plan

SEED = 3
AT_ONCE = 6


def plans(kind: str, count: int) -> list[SessionPlan]:
    """The first plans of a kind. They speak four times as fast as people do, so they are not live."""
    drawn = (draw_live_plan(SEED, number, (2, 5)) for number in range(400))
    chosen = [plan for plan in drawn if plan.kind == kind][:count]
    return [replace(plan, pace=4.0, options={**plan.options, "live": False}) for plan in chosen]


async def records(service: Service, kind: str) -> list[SessionRecord]:
    """Carry out plans of a kind at once."""
    began = time.monotonic()
    return await asyncio.gather(*(ReturningClient(plan, service.url, began).run() for plan in plans(kind, AT_ONCE)))


def test_plans() -> None:
    """Each kind occurs; all are live, and speak as fast as people do."""
    drawn = [draw_live_plan(SEED, number, (2, 5)) for number in range(200)]
    assert {plan.kind for plan in drawn} == set(RETURNING)
    assert all(plan.options["live"] and plan.pace == 1.0 for plan in drawn)
    assert all(2 <= len(speech.words) <= 5 for plan in drawn for speech in plan.speeches)


async def test_a_session_without_a_fault(exact_service: Service) -> None:
    """Every word comes once, and nothing was lost in between."""
    for record in await records(exact_service, "plain"):
        assert check(record, disturbed=False).broken == []
        assert (record.ended, record.resumes, record.outages) == ("done", 0, [])


async def test_a_connection_that_is_lost(exact_service: Service) -> None:
    """The session goes on over another connection, and the record says how long that took."""
    done = await records(exact_service, "cut")
    for record in done:
        assert check(record, disturbed=False).broken == []
        cuts = [item for item in record.plan.items if isinstance(item, Action)]
        assert record.actions["cut"] == len(cuts)
    assert sum(record.resumes for record in done) > 0
    assert all(lost < back for record in done for lost, back in record.outages)


async def test_who_goes(exact_service: Service) -> None:
    """A client that goes for good, with or without a word, has the first words of its session."""
    for kind, ended in (("leave", "left"), ("vanish", "vanished")):
        for record in await records(exact_service, kind):
            assert record.ended == ended
            assert check(record, disturbed=False).broken == []


async def test_a_service_that_refuses(exact_service: Service) -> None:
    """What the service refuses for good is the end of the session."""
    [plan] = plans("plain", 1)
    wrong = replace(plan, options={**plan.options, "step_ms": 7})
    record = await ReturningClient(wrong, exact_service.url, time.monotonic()).run()
    assert record.ended == "bad_option"
