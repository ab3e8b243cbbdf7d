"""What bridges share through a real store: counts, claims, a store that is away, and one with hostile entries."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest
from redis.asyncio import Redis

from streamer.base.json_types import JsonObject
from streamer.bridge.access.quotas import Admittance, Caller, Denied, QuotaLimits, Quotas
from streamer.bridge.resumption import Resumption
from streamer.bridge.telemetry.usage import Usage, sum_of
from streamer.bridge.workers import store as store_module
from streamer.bridge.workers.others import Alone, Beyond, Bridges, Counted, token_of
from streamer.bridge.workers.share import Share, SharedRecord
from streamer.bridge.workers.store import Store
from streamer.bridge.workers.store_entries import Seal, StoreError, read_secret
from tests.bridge.service_client import eventually
from tests.redis_server import RedisServer, redis_server

ANNA = Caller("192.0.2.7", "anna")
LIMITS = QuotaLimits(per_key=2, per_address=3, audio_per_key_s=100, hotwords_per_key=40, hotwords_per_address=400)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchange more often than usual, so that tests wait less."""
    monkeypatch.setattr(store_module, "EXCHANGE_S", 0.05)
    monkeypatch.setattr(store_module, "SOON_S", 0.01)
    monkeypatch.setattr(store_module, "AUDIO_EVERY_S", 0.1)
    monkeypatch.setattr(store_module, "LIMIT_S", 0.5)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A store that is empty."""
    with redis_server() as running:
        yield running


@asynccontextmanager
async def exchanging(*stores: Store) -> AsyncIterator[None]:
    """Let these bridges exchange what they have."""
    tasks = [asyncio.create_task(store.run()) for store in stores]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)


def bridge(server: RedisServer) -> Store:
    return Store(server.address, read_secret(server.secret), Alone())


@asynccontextmanager
async def two_bridges(server: RedisServer) -> AsyncIterator[tuple[Store, Store]]:
    """Two bridges that know each other."""
    first, second = bridge(server), bridge(server)
    async with exchanging(first, second):
        await eventually(lambda: first.bridges == second.bridges == Bridges(True, 1, 0))
        yield first, second


def entered(quotas: Quotas, caller: Caller = ANNA) -> Admittance | None:
    """Open a session, or return None if it is refused."""
    try:
        return quotas.enter(caller)
    except Denied:
        return None


async def test_sessions_count_at_all_bridges(server: RedisServer) -> None:
    """Sessions of a key and of an address are those of all bridges; slots are those of one bridge."""
    async with two_bridges(server) as stores:
        first, second = (Quotas(LIMITS, store) for store in stores)
        here, there = entered(first), entered(second)
        assert here
        assert there
        await eventually(lambda: first.sessions_of("anna") == second.sessions_of("anna") == 2)
        assert not entered(first)
        assert not entered(second)
        assert entered(second, Caller(ANNA.address, "bert"))
        await eventually(lambda: stores[0].count(Counted.OF_NETWORK, ANNA.address, 3) == 2)
        assert not entered(first, Caller(ANNA.address, "carl"))  # the fourth of this address
        here.leave()
        await eventually(lambda: second.sessions_of("anna") == 1)
        stores[0].note(Counted.SLOTS, "", 7)
        assert entered(second)
        assert stores[1].count(Counted.SLOTS, "", 10) == 0


async def test_a_bridge_that_ends_or_is_killed(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bridge had that ends is free at once, and what one had that tells nothing any more, soon."""
    monkeypatch.setattr(store_module, "SILENT_S", 1.0)
    ending, silent, last = bridge(server), bridge(server), bridge(server)
    quotas = Quotas(LIMITS, last)
    async with exchanging(last):
        async with exchanging(ending):
            assert entered(Quotas(LIMITS, ending))
            await eventually(lambda: quotas.sessions_of("anna") == 1)
        await eventually(lambda: last.bridges.others == 0)
        assert quotas.sessions_of("anna") == 0

        async def nothing(*_: object) -> None:
            await asyncio.sleep(0)

        async with exchanging(silent):
            assert entered(Quotas(LIMITS, silent))
            await eventually(lambda: quotas.sessions_of("anna") == 1)
            monkeypatch.setattr(silent, "_exchange", nothing)
            await eventually(lambda: quotas.sessions_of("anna") == 0)
            assert last.bridges.others == 0


async def test_hotwords_and_pseudonyms(server: RedisServer) -> None:
    """What one bridge charges for hotwords is missing at the other, and a caller has the same pseudonym at both."""
    async with two_bridges(server) as stores:
        first, second = (entered(Quotas(LIMITS, store)) for store in stores)
        assert first
        assert second
        assert first.pseudonym == second.pseudonym
        assert first.prepare(["kubernetes" * 3], 1) is None
        await eventually(lambda: stores[1].bucket("key", "anna") is not None)
        denied = second.prepare(["elephants" * 3], 1)
        assert denied is not None
        assert denied.code == "hotwords_used_up"
        state = stores[1].bucket("key", "anna")
        assert state is not None
        assert state.level == pytest.approx(30 / 40, abs=0.1)  # and is charged once, however often it is told
        assert second.prepare(["giraffes"], 1) is None
        await eventually(lambda: (stores[0].bucket("key", "anna") or state).level > 0.8)


async def test_audio_of_the_hour_outlives_a_bridge(server: RedisServer) -> None:
    """The audio of a key counts everywhere, also when its bridge has ended, and when the store has lost it."""
    staying = bridge(server)
    async with exchanging(staying):
        ending = bridge(server)
        async with exchanging(ending):
            ending.settle({}, {"anna": [(time.time(), 60.0)]})
            await eventually(lambda: staying.audio_of_others() != {})
        later = bridge(server)
        async with exchanging(later):
            await eventually(lambda: later.audio_of_others() != {})
            quotas = Quotas(LIMITS, later)
            quotas.take_audio_of_others(later.audio_of_others())
            denied = quotas.charge(ANNA, 41)
            assert denied is not None
            assert denied.retry_s > 3000
        server.kill()
        server.start()
        await eventually(lambda: staying.bridges.together)
        assert [seconds for _, seconds in staying.audio_of_others()["anna"]] == [60.0]
        old = [(time.time() - 4000, 60.0)]
        staying._processes = {}
        assert staying.audio_of_others() == {}
        async with exchanging(ending := bridge(server)):
            ending.settle({}, {"anna": old})
            await eventually(lambda: any(each.audio for each in staying._processes.values()))
            assert staying.audio_of_others() == {}  # more than an hour ago


class Session:
    """A session that can be resumed."""

    parked, resumable, given_up = False, True, False

    def give_up(self) -> None:
        self.given_up = True


async def test_the_later_bridge_has_a_session(server: RedisServer) -> None:
    """A bridge gives a session up that another one claims with its token and its key, and its token is void."""
    async with two_bridges(server) as (first, second):
        resumption: Resumption[Session] = Resumption(None, first)
        sessions = {}
        for name in ("one", "two"):
            sessions[token_of(first.bridge, 0, name)] = Session()
        for token, session in sessions.items():
            resumption.add(token, "anna", session)
        one, two = sessions
        elsewhere: Resumption[Session] = Resumption(None, second)
        assert elsewhere.is_at_another_bridge(one)
        assert not resumption.is_at_another_bridge(one)
        await elsewhere.claim(one, "bert")
        await elsewhere.claim(token_of(first.bridge, 0, "guessed"), "anna")
        await elsewhere.claim(token_of("another", 0, "house"), "anna")
        await elsewhere.claim(token_of("../processes", 0, "no name"), "anna")
        await elsewhere.claim(two, "anna")
        await resumption.refresh()
        await eventually(lambda: sessions[two].given_up)
        assert resumption.find(two, "anna") is None
        assert not sessions[one].given_up
        assert resumption.find(one, "anna") is sessions[one]
        await elsewhere.claim(one, "anna")
        await resumption.refresh()  # what a client that resumes here waits for
        assert resumption.find(one, "anna") is None


async def test_a_claim_waits_for_the_store(server: RedisServer) -> None:
    """A claim that cannot be told at once is told when the store is back, and nobody waits for that."""
    async with two_bridges(server) as (first, second):
        resumption: Resumption[Session] = Resumption(None, first)
        session, token = Session(), token_of(first.bridge, 0, "secret")
        resumption.add(token, "anna", session)
        server.send(signal.SIGSTOP)
        began = time.monotonic()
        await second.claim(token, b"", "anna")
        await Resumption(None, second).claim(token, "anna")
        assert time.monotonic() - began < 30
        await eventually(lambda: not second.bridges.together)
        assert not session.given_up
        server.send(signal.SIGCONT)
        await eventually(lambda: session.given_up)


async def test_all_clients_of_a_bridge_return_elsewhere_at_once(server: RedisServer) -> None:
    """However many sessions are claimed in one exchange, all of them are given up, and no claim counts as a forgery."""
    async with two_bridges(server) as (first, second):
        resumption: Resumption[Session] = Resumption(None, first)
        sessions = {token_of(first.bridge, 0, f"secret {number}"): Session() for number in range(1000)}
        key = "a" * 64  # the longest name
        for token, session in sessions.items():
            resumption.add(token, key, session)
        elsewhere: Resumption[Session] = Resumption(None, second)
        await asyncio.gather(*(elsewhere.claim(token, key) for token in sessions))
        await eventually(lambda: all(session.given_up for session in sessions.values()))
        assert first.bridges.refused == 0


async def test_more_claims_than_may_wait(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further claims push out those that wait longest, and none that came while others were on their way is lost."""
    monkeypatch.setattr(store_module, "MOST_CLAIMS", 4)
    monkeypatch.setattr(store_module, "LIMIT_S", 60.0)
    async with two_bridges(server) as (first, second):
        resumption: Resumption[Session] = Resumption(None, first)
        sessions = {token_of(first.bridge, 0, f"secret {number}"): Session() for number in range(12)}
        for token, session in sessions.items():
            resumption.add(token, "anna", session)
        elsewhere: Resumption[Session] = Resumption(None, second)
        tokens = list(sessions)
        exchange, begun = second._try_exchange, asyncio.Event()

        async def exchange_slowly(client: Redis) -> None:
            if second._claims and not begun.is_set():
                server.send(signal.SIGSTOP)
                begun.set()
            await exchange(client)

        monkeypatch.setattr(second, "_try_exchange", exchange_slowly)
        on_their_way = asyncio.gather(*(elsewhere.claim(token, "anna") for token in tokens[:4]))
        await begun.wait()
        await asyncio.gather(on_their_way, *(elsewhere.claim(token, "anna") for token in tokens[4:]))
        server.send(signal.SIGCONT)
        await eventually(lambda: all(sessions[token].given_up for token in [*tokens[:4], *tokens[8:]]))
        assert not any(sessions[token].given_up for token in tokens[4:8])


async def test_more_claims_than_are_read(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds the bound of an inbox is ignored, and a claim that is cut off there counts as no forgery."""
    async with two_bridges(server) as (first, second):
        resumption: Resumption[Session] = Resumption(None, first)
        sessions = {token_of(first.bridge, 0, f"secret {number}"): Session() for number in range(4)}
        for token, session in sessions.items():
            resumption.add(token, "anna", session)
        monkeypatch.setattr(store_module, "LARGEST_INBOX", 400)  # two claims and a part of the third
        elsewhere: Resumption[Session] = Resumption(None, second)
        await asyncio.gather(*(elsewhere.claim(token, "anna") for token in sessions))
        await eventually(lambda: [session.given_up for session in sessions.values()] == [True, True, False, False])
        assert first.bridges.refused == 0


async def test_a_claim_is_heard_although_the_rest_of_an_exchange_fails(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims are in the store no more once they were read, so nothing that may fail comes before them."""
    monkeypatch.setattr(store_module, "_KEPT_S", 1)
    monkeypatch.setattr(store_module, "AUDIO_EVERY_S", 0.0)
    async with two_bridges(server) as (first, second):
        resumption: Resumption[Session] = Resumption(None, first)
        session, token = Session(), token_of(first.bridge, 0, "secret")
        resumption.add(token, "anna", session)
        with server.client() as operator:
            operator.execute_command("ACL", "SETUSER", "default", "-srem")
            operator.sadd("streamer:processes", "0123456789.0.dead")  # which each of them wants to remove soon
        await eventually(lambda: not (first.bridges.together or second.bridges.together))
        await Resumption(None, second).claim(token, "anna")
        await eventually(lambda: session.given_up)


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_store_that_is_away(server: RedisServer, how: str) -> None:
    """Without the store, each bridge has its part of each limit; when it is back, what was done meanwhile counts."""
    limits = QuotaLimits(per_key=4)
    async with two_bridges(server) as stores:
        first, second = (Quotas(limits, store) for store in stores)
        if how == "killed":
            server.kill()
        else:
            server.send(signal.SIGSTOP)
        await eventually(lambda: not stores[0].bridges.together and not stores[1].bridges.together)
        for quotas in (first, second):
            assert entered(quotas)
            assert entered(quotas)
            assert not entered(quotas)  # half of four
        if how == "killed":
            server.start()  # without anything that it had
        else:
            server.send(signal.SIGCONT)
        await eventually(lambda: stores[0].bridges == stores[1].bridges == Bridges(True, 1, 0))
        await eventually(lambda: first.sessions_of("anna") == second.sessions_of("anna") == 4)


async def test_a_bridge_that_starts_without_its_store(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """A bridge that never reached the store has the whole of each limit, and finds the others when it is there."""
    server.kill()
    store = bridge(server)
    quotas = Quotas(LIMITS, store)
    async with exchanging(store):
        await eventually(lambda: "bridges count alone" in caplog.text)
        assert entered(quotas)
        assert entered(quotas)
        assert not entered(quotas)
        server.start()
        other = bridge(server)
        async with exchanging(other):
            await eventually(lambda: Quotas(LIMITS, other).sessions_of("anna") == 2)
    assert caplog.text.count("bridges count alone") == 1


async def test_a_wrong_password(caplog: pytest.LogCaptureFixture) -> None:
    """A bridge with a wrong password goes on alone, and says why without the password."""
    with redis_server("right password".replace(" ", "-")) as server:
        wrong = Store(server.address.replace("right", "wrong"), read_secret(server.secret), Alone())
        right = bridge(server)
        async with exchanging(wrong, right):
            await eventually(lambda: right.bridges.together)
            await eventually(lambda: "bridges count alone" in caplog.text)
            assert entered(Quotas(LIMITS, wrong))
            assert not wrong.bridges.together
    assert "wrong-password" not in caplog.text


async def test_usage_of_all_bridges(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keys used adds up over bridges and days, also of those that have ended, and is written again if lost."""
    now = datetime(2026, 10, 30, 12, tzinfo=timezone.utc).timestamp()
    clock = [now]
    monkeypatch.setattr("streamer.bridge.workers.store.time.time", lambda: clock[0])
    staying = bridge(server)
    async with exchanging(staying):
        async with exchanging(ending := bridge(server)):
            await eventually(lambda: ending.bridges.others == 1)
            ending.settle({"anna": Usage(1, 10.0, 0), "": Usage(5, 5.0, 5)}, {})
        staying.settle({"anna": Usage(2, 20.5, 0), "bert": Usage(0, 0.0, 3)}, {})
        clock[0] += 86400
        staying.settle({"anna": Usage(3, 21.5, 0), "bert": Usage(0, 0.0, 3)}, {})

        async def has(**total: Usage) -> None:
            for _ in range(600):
                days = await staying.usage_of_month("2026-10")
                if days is not None and sum_of(days.values()) == total:
                    return
                await asyncio.sleep(0.02)
            raise AssertionError(days)

        await has(anna=Usage(4, 31.5, 0), bert=Usage(0, 0.0, 3))
        assert await staying.usage_of_month("2026-10") == {
            "2026-10-30": {"anna": Usage(3, 30.5, 0), "bert": Usage(0, 0.0, 3)},
            "2026-10-31": {"anna": Usage(1, 1.0, 0)},
        }
        assert await staying.usage_of_month("2026-11") == {}
        server.kill()
        await eventually(lambda: not staying.bridges.together)
        assert await staying.usage_of_month("2026-10") is None
        server.start()
        await has(anna=Usage(3, 21.5, 0), bert=Usage(0, 0.0, 3))  # of the bridge that still runs
        with server.client() as stranger:
            stranger.sadd(
                "streamer:usages:2026-10", "nonsense", b"\xff", "2026-10-30 ../x", f"2026-10-30 {'ab' * 5}.0.ff"
            )
            stranger.set(f"streamer:usage:2026-10-30 {'ab' * 5}.0.ff", b'{"keys":{"anna":{"sessions":9}}}')
        await has(anna=Usage(3, 21.5, 0), bert=Usage(0, 0.0, 3))
        assert staying.bridges.refused >= 1


async def test_a_bridge_asks_the_others(server: RedisServer) -> None:
    """Every other process answers a question with what it has; the store has it for some seconds only."""
    async with two_bridges(server) as (first, second):
        second.on_question(lambda question: {"heard": question["wish"]})
        assert await first.ask({"wish": "sessions"}) == Beyond([{"heard": "sessions", "format": 1}], [])
        assert await second.ask({"wish": "sessions"}) == Beyond([{"format": 1}], [])
        with server.client() as reader:
            answers = [name for name in reader.keys("*") if b":answer:" in name]
            assert len(answers) == 2
            assert all(0 < reader.ttl(name) <= 10 for name in answers)


async def test_a_bridge_that_has_just_begun_is_asked(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge asks all that the store knows, also those of which it has not heard yet."""
    first, second = bridge(server), bridge(server)
    async with AsyncExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(store_module, "EXCHANGE_S", 60.0)  # so that it hears of nobody by itself
            await stack.enter_async_context(exchanging(first))
            await eventually(lambda: first.bridges.together)
            await first.refresh()  # behind it, the 60 s begin
        await stack.enter_async_context(exchanging(second))
        await eventually(lambda: second.bridges == Bridges(True, 1, 0))
        assert first.bridges.others == 0
        assert await first.ask({}) == Beyond([{"format": 1}], [])


async def test_bridges_that_do_not_answer(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is stopped or was killed is named for a while; one that has ended in order is not missed."""
    monkeypatch.setattr(store_module, "SILENT_S", 1.0)
    monkeypatch.setattr(store_module, "ANSWER_LIMIT_S", 0.3)
    first, stopped, ended = bridge(server), bridge(server), bridge(server)
    async with exchanging(first):
        async with exchanging(ended):
            await eventually(lambda: first.bridges.others == 1)
        await eventually(lambda: first.bridges.others == 0)
        with monkeypatch.context() as patch:
            async with exchanging(stopped):
                await eventually(lambda: first.bridges.others == 1)

                async def nothing(*_: object) -> None:
                    await asyncio.sleep(0)

                patch.setattr(stopped, "_try_exchange", nothing)
                named = Beyond([], [f"Bridge {stopped.bridge} does not answer."])
                assert await first.ask({}) == named
                await eventually(lambda: first.bridges.others == 0)
                assert await first.ask({}) == named


async def test_nobody_is_asked_without_the_store(server: RedisServer) -> None:
    """While the store is away, nobody is waited for, also if it goes meanwhile."""
    away = Beyond([], ["The store is away, so only this bridge is known."])
    assert await bridge(server).ask({}) == away
    async with two_bridges(server) as (first, second):
        second.on_question(lambda _: {})
        asking = asyncio.create_task(first.ask({}))
        server.kill()
        assert await asking in (away, Beyond([{"format": 1}], []))
        await eventually(lambda: not first.bridges.together)
        assert await first.ask({}) == away


async def test_a_bridge_that_ends_while_it_asks(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks at a bridge that ends does not wait for an exchange that never comes."""
    monkeypatch.setattr(store_module, "MEET_LIMIT_S", 3600.0)
    first = bridge(server)
    async with exchanging(first):
        await eventually(lambda: first.bridges.together)
        asking = asyncio.create_task(first.ask({}))
        for _ in range(3):  # steps, until it waits for an exchange
            await asyncio.sleep(0)
    assert await asking == Beyond([], ["The store is away, so only this bridge is known."])


async def test_questions_of_strangers(server: RedisServer) -> None:
    """A question that no bridge has signed, or that was moved to another place, is not answered."""
    asked = list[object]()

    def note(question: JsonObject) -> JsonObject:
        asked.append(question)
        return {}

    async with two_bridges(server) as (first, second):
        second.on_question(note)
        with server.client() as stranger:
            place = f"streamer:questions:{second.bridge}.0"
            stranger.append(
                place, b'{"question":{"wish":"end"},"reply":"streamer:answer:1"}\n' + b"x" * 100_000 + b"\n"
            )
            elsewhere = Seal(read_secret(server.secret)).sign("streamer:questions:other.0", {"question": {}})
            stranger.append(place, elsewhere + b"\n")
        await eventually(lambda: second.bridges.refused >= 2)
        assert asked == []
        assert (await first.ask({"wish": "sessions"})).problems == []
        assert asked == [{"wish": "sessions"}]


async def test_entries_of_strangers(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody of these bridges has signed for its place counts as missing, whatever it is, and is told once."""
    async with two_bridges(server) as (first, second):
        quotas = Quotas(LIMITS, first)
        with server.client() as stranger:
            place, own = second._place, first._place
            entry, mine = f"streamer:process:{place}", f"streamer:process:{own}"
            assert entered(Quotas(LIMITS, second))
            await eventually(lambda: quotas.sessions_of("anna") == 1)
            old = stranger.get(entry)
            assert isinstance(old, bytes)
            signed = stranger.get(mine)
            assert isinstance(signed, bytes)
            session, token = Session(), token_of(first.bridge, 0, "secret")
            resumption: Resumption[Session] = Resumption(None, first)
            resumption.add(token, "anna", session)
            hostile = (
                b"x",
                b"\xff" * 100_000,
                b"0" * 64 + b'{"number":99999999,"counts":{"key anna":9},"charges":{},"drains":false,"format":1}',
                signed,  # for another place
                old,  # signed for this place, but older
                old[:-1],
            )
            for content in hostile:
                for _ in range(20):
                    stranger.set(entry, content)
                    stranger.set(f"streamer:claims:{first.bridge}.0", content)
                    stranger.set(f"streamer:audio:{place}", content)
                    await asyncio.sleep(0.01)
                assert quotas.sessions_of("anna") <= 2
            with stranger.pipeline() as at_once:
                at_once.delete(entry, f"streamer:claims:{first.bridge}.0")
                at_once.rpush(entry, "a list")
                at_once.rpush(f"streamer:claims:{first.bridge}.0", "a list")
                at_once.set("streamer:processes", "no set")
                at_once.execute()
            await eventually(lambda: stranger.type("streamer:processes") == b"set")
            stranger.sadd("streamer:processes", b"\xff\xfe", "a.b.c", "../x", "y" * 1000, f"{'e' * 10}.0.ffff")
            await eventually(lambda: first.bridges.together and second.bridges.others == 1)
            assert not session.given_up
            assert first.audio_of_others() == {}
            assert first.bridges.refused > 0
    assert caplog.text.count("an entry that no bridge has signed") == 1


async def test_another_secret(server: RedisServer, tmp_path: Path) -> None:
    """Bridges with different secrets do not believe each other."""
    (tmp_path / "secret").write_text("another secret, which is long enough too")
    first = bridge(server)
    second = Store(server.address, read_secret(tmp_path / "secret"), Alone())
    async with exchanging(first, second):
        assert entered(Quotas(LIMITS, first))
        await eventually(lambda: second.bridges.refused > 1)
        assert Quotas(LIMITS, second).sessions_of("anna") == 0
        assert first.bridges.others == second.bridges.others == 0


async def test_workers_with_a_store(server: RedisServer, tmp_path: Path) -> None:
    """Workers of one bridge share through its own share at once, and are one bridge for others."""
    record = SharedRecord(tmp_path)
    shares = [Share(tmp_path, number, 2) for number in (1, 2)]
    workers = [Store(server.address, read_secret(server.secret), share, share.identity) for share in shares]
    other = bridge(server)
    assert workers[0].bridge == workers[1].bridge != other.bridge
    async with exchanging(*workers, other):
        await eventually(lambda: all(each.bridges == Bridges(True, 1, 0) for each in (*workers, other)))
        quotas = [Quotas(QuotaLimits(per_key=4), each) for each in workers]
        assert entered(quotas[0])
        assert quotas[1].sessions_of("anna") == 1
        assert entered(quotas[1])
        elsewhere = Quotas(QuotaLimits(per_key=4), other)
        await eventually(lambda: elsewhere.sessions_of("anna") == 2)
        assert entered(elsewhere)
        await eventually(lambda: [each.sessions_of("anna") for each in quotas] == [3, 3])
        resumption: Resumption[Session] = Resumption(None, workers[1])
        session, token = Session(), token_of(workers[1].bridge, 2, "secret")
        resumption.add(token, "anna", session)
        await Resumption[Session](None, other).claim(token, "anna")
        await eventually(lambda: session.given_up)
    for worker in workers:
        worker.close()
    record.close()


async def test_what_the_store_knows(server: RedisServer) -> None:
    """The store has names of keys and numbers. It has no addresses, and nothing of a bridge that ended but audio."""
    async with AsyncExitStack() as stack:
        first, _ = await stack.enter_async_context(two_bridges(server))
        admittance = entered(Quotas(LIMITS, first), Caller("2001:db8::17", "anna"))
        assert admittance
        assert admittance.prepare(["a secret hotword"], 1) is None
        first.settle({}, {"anna": [(time.time(), 60.0)]})
        with server.client() as reader:
            await eventually(lambda: bool(reader.exists(f"streamer:audio:{first._place}")))
            everything = b""
            for name in reader.keys("*"):
                assert isinstance(name, bytes)
                everything += name + bytes(reader.dump(name) or b"")
                assert name == b"streamer:processes" or 0 < int(reader.ttl(name)) <= 3660
    assert b"key anna" in everything
    for secret in (b"2001:db8", b"hotword", server.secret.read_bytes().strip()):
        assert secret not in everything


def test_a_secret_that_cannot_be_used(tmp_path: Path) -> None:
    """A file that is missing or has a short secret is refused with a sentence."""
    with pytest.raises(StoreError, match="cannot be read"):
        read_secret(tmp_path / "missing")
    (tmp_path / "short").write_text("too short\n")
    with pytest.raises(StoreError, match="at least 32 characters"):
        read_secret(tmp_path / "short")
