"""The limit for the hotwords of one caller in a minute."""

from __future__ import annotations

from streamer.bridge.access.preparation_budget import MOST_BUCKETS, Preparation, PreparationBudget


def preparation(characters: int, name: str = "a", streams: int = 1) -> Preparation:
    """Return the preparation of one list with this length."""
    return Preparation.of([name * characters], streams)


def test_a_bucket_leaks() -> None:
    """Hotwords of the last minute count; a caller above the limit learns when there is room again."""
    budget = PreparationBudget(600)
    for place, name in enumerate("abc"):
        assert budget.wait_s("anna", preparation(200, name), place) == 0
        budget.charge("anna", preparation(200, name), 0)
    assert budget.wait_s("anna", preparation(200, "d"), 0) == 20
    assert budget.wait_s("anna", preparation(200, "d"), 15) == 5
    assert budget.wait_s("anna", preparation(200, "d"), 20) == 0
    assert budget.wait_s("ben", preparation(600), 0) == 0


def test_nothing_costs_nothing() -> None:
    """A session without hotwords is never refused, whatever its caller used before."""
    budget = PreparationBudget(600)
    budget.charge("anna", preparation(10_000), 0)
    assert budget.wait_s("anna", preparation(1, "b"), 0) > 900
    assert budget.wait_s("anna", Preparation.of([], 8), 0) == 0


def test_the_largest_list_is_possible() -> None:
    """Even a list above the limit is possible, once the bucket is empty."""
    budget = PreparationBudget(100)
    assert budget.wait_s("anna", preparation(12_000), 0) == 0
    budget.charge("anna", preparation(100, "b"), 0)
    assert budget.wait_s("anna", preparation(12_000), 0) == 60
    assert budget.wait_s("anna", preparation(12_000), 60) == 0


def test_the_same_list_again_is_cheap() -> None:
    """The same list costs less in other streams of a session and in later sessions, as it does in the recogniser."""
    budget = PreparationBudget(600)
    budget.charge("anna", preparation(200, streams=5), 0)
    assert budget.wait_s("anna", preparation(201, "b"), 0) == 1
    assert budget.wait_s("anna", preparation(200), 0) == 0
    for _ in range(4):
        budget.charge("anna", preparation(200), 0)
    assert budget.wait_s("anna", preparation(200), 0) == 5


def test_no_limit_and_many_callers() -> None:
    """Without a limit nothing is counted; with one, only a limited number of callers is remembered."""
    free = PreparationBudget(None)
    free.charge("anna", preparation(10**6), 0)
    assert free.wait_s("anna", preparation(10**6), 0) == 0
    budget = PreparationBudget(100)
    for number in range(MOST_BUCKETS + 10):
        budget.charge(str(number), preparation(100), 0)
    assert len(budget._buckets) == MOST_BUCKETS
