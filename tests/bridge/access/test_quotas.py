"""The quotas of one caller, hotwords among them, counted without sockets."""

from __future__ import annotations

import time

import pytest

from streamer.bridge.access.quotas import (
    MOST_BUCKETS,
    Admittance,
    Caller,
    Denied,
    Preparation,
    PreparationBudget,
    QuotaLimits,
    Quotas,
    network_of,
)

ALICE, ALICE_ELSEWHERE, BOB = Caller("10.0.0.1", "alice"), Caller("10.0.0.2", "alice"), Caller("10.0.0.1", "bob")


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 10_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_sessions_of_a_key() -> None:
    """Sessions of a key count from any address, and keys count separately; an ended session makes room."""
    quotas = Quotas(QuotaLimits(per_key=2))
    first = quotas.enter(ALICE)
    quotas.enter(ALICE_ELSEWHERE)
    with pytest.raises(Denied, match="already has 2 sessions") as caught:
        quotas.enter(ALICE)
    assert (caught.value.code, caught.value.close_code, caught.value.status) == ("too_many_sessions", 1013, 429)
    assert caught.value.reason == "too many sessions: try again in 5 s"
    quotas.enter(BOB)
    first.leave()
    quotas.enter(ALICE)


def test_sessions_of_an_address() -> None:
    """Sessions of an address count whatever their keys."""
    quotas = Quotas(QuotaLimits(per_address=1))
    admittance = quotas.enter(ALICE)
    with pytest.raises(Denied, match="already has 1 session, the maximum"):
        quotas.enter(BOB)
    quotas.enter(ALICE_ELSEWHERE)
    admittance.leave()
    quotas.enter(BOB)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_addresses_are_counted_by_who_has_them(address: str, network: str) -> None:
    """IPv6 addresses count by network, because each client has more of them than could be counted."""
    assert network_of(address) == network


def test_sessions_of_a_range_of_addresses() -> None:
    """Who has many 64-bit networks has four times as many sessions in 56 bits, and 16 times as many in 48."""
    quotas, admitted = Quotas(QuotaLimits(per_address=2)), list[Admittance]()

    def enter(home: int, network: int) -> None:
        admitted.append(quotas.enter(Caller(f"2001:db8:7:{home:02x}{network:02x}::1")))

    for home in range(4):
        for network in range(8):
            enter(home, network % 4)
        with pytest.raises(Denied, match=r"network 2001:db8:7:.*:/56 already has 8 sessions"):
            enter(home, 99)
    with pytest.raises(Denied, match="network 2001:db8:7::/48 already has 32 sessions, the maximum") as caught:
        enter(4, 0)
    assert (caught.value.code, caught.value.retry_s) == ("too_many_sessions", 5)
    quotas.enter(Caller("2001:db8:8::1")).leave()
    for admittance in admitted:
        admittance.leave()
    assert not quotas._of_networks


def test_hotwords_of_a_range_of_addresses(clock: Clock) -> None:
    """The same holds for hotwords."""
    quotas = Quotas(QuotaLimits(hotwords_per_address=100))

    def prepare(number: int) -> Denied | None:
        with_words = quotas.enter(Caller(f"2001:db8:7:{number:x}::1"))
        return with_words.prepare([f"{number:050d}", f"{number:049d}x"], 1)

    assert [prepare(number) for number in range(4)] == [None] * 4
    denied = prepare(4)
    assert denied is not None
    assert (denied.code, denied.retry_s) == ("hotwords_used_up", 15)
    assert "This network 2001:db8:7::/56 may use at most 400 characters" in denied.message
    assert [prepare(256 * home + 5) for home in range(1, 13)] == [None] * 12
    denied = prepare(256 * 13 + 5)
    assert denied is not None
    assert "network 2001:db8:7::/48 may use at most 1600 " in denied.message


def test_audio_of_a_key(clock: Clock) -> None:
    """Audio of a key within an hour counts over all its sessions, and the announced wait is long enough."""
    quotas = Quotas(QuotaLimits(audio_per_key_s=100))
    first, second = quotas.enter(ALICE), quotas.enter(ALICE_ELSEWHERE)
    assert first.charge(60) is None
    clock.now += 1800
    assert second.charge(39.9) is None
    assert quotas.enter(BOB).charge(99) is None
    denied = first.charge(0.2)
    assert denied is not None
    assert (denied.code, denied.status) == ("audio_used_up", 429)
    assert f"continue in {denied.retry_s} s" in denied.message
    with pytest.raises(Denied, match="100 s of audio"):
        quotas.enter(ALICE)
    clock.now += denied.retry_s - 1
    with pytest.raises(Denied):
        quotas.enter(ALICE)
    clock.now += 1
    assert quotas.enter(ALICE).charge(59) is None


def test_audio_is_remembered_by_the_minute(clock: Clock) -> None:
    """A key uses little memory, however many frames come, and for however long."""
    quotas = Quotas(QuotaLimits(audio_per_key_s=1e9))
    admittance = quotas.enter(ALICE)
    for _ in range(20_000):
        clock.now += 1
        admittance.charge(0.1)
    minutes = quotas._audio["alice"]._minutes
    assert len(minutes) <= 61
    assert sum(seconds for _, seconds in minutes) == pytest.approx(360, abs=6)


def test_nothing_is_kept_of_who_has_left() -> None:
    """Addresses without sessions are not remembered, because there are many."""
    quotas = Quotas(QuotaLimits(per_address=5))
    for number in range(100):
        quotas.enter(Caller(f"10.0.0.{number}")).leave()
    assert not quotas._of_networks
    assert not quotas._of_keys


def test_without_keys_there_is_no_share_of_one(clock: Clock) -> None:
    """Audio of callers without a key is not counted."""
    quotas = Quotas(QuotaLimits(per_key=1, audio_per_key_s=1))
    for _ in range(3):
        assert quotas.enter(Caller("10.0.0.1")).charge(10) is None


def test_hotwords_of_a_key_and_of_an_address(clock: Clock) -> None:
    """Hotwords count for key and address; a refusal says when to try again, and costs nothing; other sessions go on."""
    quotas = Quotas(QuotaLimits(hotwords_per_key=100, hotwords_per_address=150))
    alice, bob, elsewhere = (quotas.enter(caller) for caller in (ALICE, BOB, ALICE_ELSEWHERE))
    assert alice.prepare(["x" * 100], 1) is None
    for _ in range(2):
        denied = elsewhere.prepare(["y" * 50], 1)
        assert denied is not None
        assert (denied.code, denied.close_code, denied.retry_s) == ("hotwords_used_up", 1013, 30)
        assert "This key may use at most 100 characters" in denied.message
    assert bob.prepare(["y" * 50], 1) is None
    denied = bob.prepare(["z" * 50], 1)
    assert denied is not None
    assert "This address may use at most 150 characters" in denied.message
    assert all(admittance.prepare([], 8) is None for admittance in (alice, bob, elsewhere))
    clock.now += 30
    assert elsewhere.prepare(["y" * 50], 1) is None


def test_a_pseudonym_is_one_of_a_caller() -> None:
    """A key has one pseudonym at all addresses, which reveals neither key nor address."""
    quotas, others = Quotas(QuotaLimits()), Quotas(QuotaLimits())
    alice = quotas.enter(ALICE).pseudonym
    assert alice == quotas.enter(ALICE_ELSEWHERE).pseudonym
    assert len({alice, quotas.enter(BOB).pseudonym, quotas.enter(Caller("10.0.0.1")).pseudonym}) == 3
    assert alice != others.enter(ALICE).pseudonym
    assert quotas.enter(Caller("2001:db8::1")).pseudonym == quotas.enter(Caller("2001:db8::2")).pseudonym


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


def test_audio_of_an_earlier_process(clock: Clock) -> None:
    """Audio of the last hour counts on in another process, for the rest of its hour; other keys have theirs."""
    limits = QuotaLimits(audio_per_key_s=60)
    earlier, later = Quotas(limits), Quotas(limits)
    assert earlier.charge(ALICE, 60) is not None
    later.restore_audio(earlier.audio_of_hour())
    with pytest.raises(Denied, match=r"60 s of audio, the maximum for an hour; continue in 3[56]\d\d s") as caught:
        later.check(ALICE)
    assert (caught.value.code, caught.value.key) == ("audio_used_up", "alice")
    later.check(BOB)
    clock.now += 3600
    later.check(ALICE)
    assert later.audio_of_hour() == {}


def test_audio_from_the_future(clock: Clock) -> None:
    """After the clock was set back, restored audio is not held against its key for more than an hour."""
    quotas = Quotas(QuotaLimits(audio_per_key_s=60))
    quotas.restore_audio({"alice": [(time.time() + 1e6, 60.0)]})
    with pytest.raises(Denied):
        quotas.check(ALICE)
    clock.now += 3600
    quotas.check(ALICE)
