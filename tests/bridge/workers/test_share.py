"""What workers count together, with real databases: limits, what is left by a dead worker, and a share that is away."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.bridge.access.quotas import Admittance, Caller, Denied, QuotaLimits, Quotas
from streamer.bridge.access.short_keys import Holder, ShortKeys
from streamer.bridge.telemetry.usage import Usage
from streamer.bridge.workers import share as share_module
from streamer.bridge.workers.joined_metrics import Words, past_of
from streamer.bridge.workers.others import Counted
from streamer.bridge.workers.share import FILE, Share, SharedRecord

ANNA = Caller("192.0.2.7", "anna")
LIMITS = QuotaLimits(per_key=2, per_address=3, audio_per_key_s=100, hotwords_per_key=40, hotwords_per_address=400)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[SharedRecord]:
    """The share as the supervising process has it."""
    record = SharedRecord(tmp_path)
    yield record
    record.close()


@pytest.fixture
def shares(record: SharedRecord, tmp_path: Path) -> Iterator[list[Share]]:
    """The shares of two workers."""
    shares = [Share(tmp_path, number, 2) for number in (1, 2)]
    yield shares
    for share in shares:
        share.close()


def entered(quotas: Quotas, caller: Caller = ANNA) -> Admittance | None:
    """Open a session, or return None if it is refused."""
    try:
        return quotas.enter(caller)
    except Denied:
        return None


def test_sessions_count_at_all_workers(shares: list[Share]) -> None:
    """Sessions of a key and of an address are those of all workers, and one that ends leaves room at each."""
    first, second = (Quotas(LIMITS, share) for share in shares)
    here = entered(first)
    there = entered(second)
    assert here
    assert there
    assert not entered(first)
    assert not entered(second)
    assert entered(second, Caller(ANNA.address, "bert"))
    assert not entered(first, Caller(ANNA.address, "bert"))  # the third of this address
    here.leave()
    there.leave()
    assert entered(first)
    assert entered(second)


def test_hotwords_and_pseudonyms(shares: list[Share]) -> None:
    """What one worker charges for hotwords is missing at the other, and a caller has the same pseudonym at both."""
    first, second = (entered(Quotas(LIMITS, share)) for share in shares)
    assert first
    assert second
    assert first.pseudonym == second.pseudonym
    assert first.prepare(["kubernetes" * 3], 1) is None
    denied = second.prepare(["elephants" * 3], 1)
    assert denied is not None
    assert denied.code == "hotwords_used_up"
    assert second.prepare(["kubernetes" * 3], 1) is None  # the recogniser remembers this list, wherever it came first


def test_audio_of_the_hour(shares: list[Share], record: SharedRecord) -> None:
    """The audio of a key counts everywhere after it was settled, also behind the death of its worker."""
    first, second = (Quotas(LIMITS, share) for share in shares)
    assert first.charge(ANNA, 60) is None
    assert second.charge(ANNA, 39) is None
    shares[0].settle({}, first.audio_of_hour())
    second.take_audio_of_others(shares[1].audio_of_others())
    denied = second.charge(ANNA, 1)
    assert denied is not None
    assert denied.retry_s > 3000
    record.bury(1)
    second.take_audio_of_others(shares[1].audio_of_others())
    assert second.charge(ANNA, 0) is not None
    [minutes] = record.hour().values()
    assert sum(seconds for _, seconds in minutes) == 60


def test_a_short_key_is_valid_at_each_worker(shares: list[Share], monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that one worker makes is found by the other until it expires, and all of them count together."""
    now = [1000.0]
    first, second = (ShortKeys(lambda: now[0], share) for share in shares)
    secret, expires_at = first.make(Holder("anna", b"digest"), 30, "settings")
    found = second.find(secret)
    assert found is not None
    assert (found.holder, found.expires_at, found.content) == (Holder("anna", b"digest"), expires_at, "settings")
    monkeypatch.setattr("streamer.bridge.access.short_keys.MOST_OF_ONE", 1)
    with pytest.raises(Denied, match="the maximum"):
        second.make(Holder("anna", b"digest"), 30)
    now[0] += 31
    assert second.find(secret) is None
    assert second.make(Holder("anna", b"digest"), 30)


def test_usage_of_workers_that_come_and_go(shares: list[Share], record: SharedRecord, tmp_path: Path) -> None:
    """Usage is the sum of all workers, and stays when one dies and its successor begins at zero."""
    shares[0].settle({"anna": Usage(2, 10.0, 1), "": Usage(9, 9.0, 9)}, {})
    shares[1].settle({"anna": Usage(1, 5.0, 0), "bert": Usage(0, 0.0, 3)}, {})
    assert record.usage() == {"anna": Usage(3, 15.0, 1), "bert": Usage(0, 0.0, 3)}
    record.bury(1)
    successor = Share(tmp_path, 3, 2)
    successor.settle({"anna": Usage(1, 1.0, 0)}, {})
    record.bury(3)
    assert record.usage()["anna"] == Usage(4, 16.0, 1)
    successor.close()


def test_the_dead_hold_nothing(shares: list[Share], record: SharedRecord) -> None:
    """What a worker held that was killed is free again when the supervising process has noticed."""
    first, second = (Quotas(LIMITS, share) for share in shares)
    assert entered(first)
    assert entered(first)
    shares[0].note(Counted.SLOTS, "", 7)
    assert not entered(second)
    assert shares[1].count(Counted.SLOTS, "", 10) == 7
    record.bury(1)
    assert shares[1].count(Counted.SLOTS, "", 10) == 0
    assert entered(second)


def test_the_dead_are_buried_later(shares: list[Share], record: SharedRecord, tmp_path: Path) -> None:
    """While a stopped worker holds the share, a dead one cannot be buried, and nothing of it is counted twice later."""
    shares[0].note(Counted.SLOTS, "", 7)
    shares[0].settle({"anna": Usage(1, 10.0, 0)}, {})
    holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert not record.bury(1)
    assert record.usage() == {"anna": Usage(1, 10.0, 0)}
    holder.execute("ROLLBACK")
    holder.close()
    for _ in range(2):
        assert record.bury(1)
    assert record.usage() == {"anna": Usage(1, 10.0, 0)}
    assert shares[1].count(Counted.SLOTS, "", 10) == 0


def test_a_share_that_is_away(shares: list[Share], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the share is away, a worker has its part of each limit; afterwards, what it did meanwhile counts."""
    monkeypatch.setattr(share_module, "WAIT_S", 0.05)
    limits = QuotaLimits(per_key=4)
    blocked, other = Share(tmp_path, 3, 2), Quotas(limits, shares[1])
    quotas = Quotas(limits, blocked)
    holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")  # such as a worker that was stopped in the middle of counting
    assert entered(quotas)  # the wait for it is over, and it goes on alone
    assert blocked.away
    assert entered(quotas)
    assert not entered(quotas)  # half of four
    quotas.charge(ANNA, 5)
    keys = ShortKeys(others=blocked)
    secret, _ = keys.make(Holder("anna"), 60)
    assert keys.find(secret) is not None
    blocked.settle({"anna": Usage(2, 5.0, 0)}, {})
    assert blocked.away
    assert other.sessions_of("anna") == 0
    holder.execute("ROLLBACK")
    holder.close()
    blocked.settle({"anna": Usage(2, 5.0, 0)}, {"anna": [(time.time(), 5.0)]})
    assert not blocked.away
    assert other.sessions_of("anna") == 2
    assert ShortKeys(others=shares[1]).find(secret) is not None
    assert shares[1].audio_of_others()["anna"][0][1] == 5.0
    blocked.close()


def test_a_share_that_is_gone(shares: list[Share], record: SharedRecord, tmp_path: Path) -> None:
    """A damaged share ends nothing: the worker goes on alone, and does not make another one."""
    record.close()
    (tmp_path / FILE).write_bytes(b"this is no database, and never was one" * 200)
    for name in ("-wal", "-shm"):
        (tmp_path / f"{FILE}{name}").unlink(missing_ok=True)
    fresh = Quotas(LIMITS, shares[0])
    assert entered(fresh)
    (tmp_path / FILE).unlink()
    shares[0].settle({"anna": Usage(1, 1.0, 0)}, {})
    shares[1].settle({"anna": Usage(1, 1.0, 0)}, {})
    assert entered(fresh) or shares[0].away


def test_many_budgets_stay_bounded(shares: list[Share], monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets of callers that are long gone are forgotten."""
    monkeypatch.setattr(share_module, "MOST_BUCKETS", 10)
    quotas = Quotas(LIMITS, shares[0])
    for number in range(50):
        admittance = entered(quotas, Caller(f"192.0.2.{number}", f"key {number}"))
        assert admittance
        assert admittance.prepare(["word"], 1) is None
    database = sqlite3.connect(shares[0]._path)
    [number] = database.execute("SELECT count(*) FROM buckets").fetchone()
    database.close()
    assert number <= 11


def words(identity: int, at: float, sessions: int) -> Words:
    """What a worker says that has opened so many sessions."""
    text = f"# TYPE streamer_sessions_opened_total counter\nstreamer_sessions_opened_total {sessions}\n"
    return Words(identity, at, text.encode())


def past(share: Share, *said: Words) -> tuple[int, int]:
    """How many sessions workers had besides those that say something, and how many of these have ended already."""
    past = share.keep_words(said)
    assert past is not None
    sessions = (int(float(each.split()[-1])) for each in past.expositions)
    return sum(sessions), sum(each.identity in past.ended for each in said)


def test_the_last_words_of_workers(shares: list[Share], record: SharedRecord, tmp_path: Path) -> None:
    """What a worker said last counts while it does not answer and when it has ended, and counts once."""
    first = shares[0]
    assert past(first, words(1, 1, 10), words(2, 1, 20)) == (0, 0)
    assert past(first, words(1, 2, 10)) == (20, 0)  # the other one does not answer
    assert record.bury(2)
    assert past(first, words(1, 3, 10)) == (20, 0)
    assert past(first, words(1, 4, 10), words(2, 2, 25)) == (20, 1)  # an answer that was on its way
    assert past(first, words(1, 5, 10), words(3, 5, 1)) == (20, 0)
    assert past(Share(tmp_path, 4, 2), words(4, 6, 0), words(1, 4.5, 8)) == (21, 0)
    assert record.bury(1)
    assert record.bury(3)
    assert past(first) == (31, 0)  # the late words of the first one were not its last
    assert len(record.past()) == 3
    record.keep_past(past_of(record.past()))
    assert len(record.past()) == 1
    assert past(first) == (31, 0)


def test_the_dead_leave_little(shares: list[Share], record: SharedRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of all workers that have ended are one text, and it is forgotten after a while which ones they were."""
    monkeypatch.setattr(share_module, "ENDED_S", 0.0)
    for identity in range(3, 20):
        record.note_starts(identity)
        assert past(shares[0], words(identity, 1, 1)) == (identity - 3, 0)
        assert record.bury(identity)
        record.keep_past(past_of(record.past()))
    database = sqlite3.connect(shares[0]._path)
    [number] = database.execute("SELECT count(*) FROM words").fetchone()
    database.close()
    assert number <= 2
    found = shares[0].keep_words([])
    assert found is not None
    assert found.starts == 19


def test_what_is_settled_while_another_one_counts(
    shares: list[Share], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share that is held while usage is told ends nothing: it is told later, and metrics are without a past."""
    monkeypatch.setattr(share_module, "WAIT_S", 0.05)
    for act in (
        lambda share: share.settle({"anna": Usage(1, 5.0, 0)}, {"anna": [(time.time(), 5.0)]}),
        lambda share: share.keep_words([]),
    ):
        share = Share(tmp_path, 3, 2)
        holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert act(share) is None
        assert share.away
        holder.execute("ROLLBACK")
        holder.close()
        share.settle({"anna": Usage(1, 5.0, 0)}, {"anna": [(time.time(), 5.0)]})
        assert not share.away
        assert shares[0].audio_of_others()["anna"][0][1] == 5.0
        assert share.keep_words([]) is not None
        share.close()
