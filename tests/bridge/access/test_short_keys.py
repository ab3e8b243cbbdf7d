"""Keys for a short time: their number, their end, and that of the key that made them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamer.bridge.access import short_keys
from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.access.short_keys import Holder, ShortKeys
from streamer.bridge.http.request import Headers, Request
from tests.bridge.access.bare_port import ADMITTED, ALICE, BOB, bearer, listening, outcome

ANNA = Holder("anna")


class Clock:
    """A time that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def request(secret: str) -> Request:
    return Request("POST", "/", headers=Headers([("Authorization", f"Bearer {secret}")]), peer="127.0.0.1")


def test_a_key_ends() -> None:
    """A key is valid until its end, and not at it."""
    clock = Clock()
    keys = ShortKeys(clock)
    secret, expires_at = keys.make(ANNA, 60, "settings")
    clock.now = expires_at - 0.1
    key = keys.find(secret)
    assert key is not None
    assert (key.holder, key.content) == (ANNA, "settings")
    assert keys.find(secret[:-1]) is None
    clock.now = expires_at
    assert keys.find(secret) is None


def test_the_number_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One holder, and all together, may have so many keys that have not ended; the refusal says when one ends."""
    monkeypatch.setattr(short_keys, "MOST_OF_ONE", 2)
    monkeypatch.setattr(short_keys, "MOST", 3)
    clock = Clock()
    keys = ShortKeys(clock)
    keys.make(ANNA, 60)
    keys.make(ANNA, 20)
    with pytest.raises(Denied, match="This caller has 2 keys") as refused:
        keys.make(ANNA, 60)
    assert (refused.value.status, refused.value.retry_s) == (429, 20)
    keys.make(Holder("berta"), 60)
    with pytest.raises(Denied, match="The service has 3 keys"):
        keys.make(Holder("clara"), 60)
    clock.now += 20
    keys.make(Holder("clara"), 60)


async def test_a_key_ends_with_its_maker(keys: KeyFile, tmp_path: Path) -> None:
    """A key for a short time admits with the name of its maker, until that key is removed; no other key helps."""
    access = AccessRules(keys)
    secret, _ = access.make_short_key(access.holder(request(ALICE.secret)), 600)
    assert access.caller(request(secret)).key == "alice"
    async with listening(access) as server:
        assert await outcome(server.url, bearer(secret)) == ADMITTED
        (tmp_path / "keys").write_text(f"{BOB.line}\n{BOB.line.replace('bob', 'alice', 1).replace('0', '1')}\n")
        access.refresh()
        assert await outcome(server.url, bearer(secret)) == ("unauthorized", 1008)


def test_a_key_expires_with_its_maker(tmp_path: Path) -> None:
    """A key for a short time ends at the end of its maker, and is not valid when the maker's line says so later."""
    maker = make_key("guest", expires_at=time.time() + 60)
    (path := tmp_path / "keys").write_text(f"{maker.line}\n")
    access = AccessRules(KeyFile(path))
    secret, expires_at = access.make_short_key(access.holder(request(maker.secret)), 600)
    assert time.time() < expires_at <= time.time() + 60
    assert access.caller(request(secret)).key == "guest"
    path.write_text(f"{maker.line.partition(' ')[0]} expires=2020-01-31T00:00:00Z\n")
    with pytest.raises(Denied, match="The key that made this key for a short time is not valid any more"):
        access.caller(request(secret))


def test_a_key_for_a_short_time_is_only_for_speech(keys: KeyFile) -> None:
    """It neither makes keys nor reads the metrics."""
    access = AccessRules(keys)
    secret, _ = access.make_short_key(access.holder(request(ALICE.secret)), 600)
    for ask in (access.holder, access.check_metrics, access.check_admin):
        with pytest.raises(Denied, match="needs a lasting key"):
            ask(request(secret))
    for ask in (access.holder, access.check_metrics):
        ask(request(ALICE.secret))


def test_an_expired_key_is_told(keys: KeyFile) -> None:
    """A key that looks like one for a short time, but is not known, may have expired."""
    with pytest.raises(Denied, match="has expired"):
        AccessRules(keys).check(request("ek_something"))


def test_without_keys_an_address_is_the_holder() -> None:
    """A service without keys makes them too, because clients ask for one, and keeps what they are for."""
    access = AccessRules()
    holder = access.holder(request("any"))
    assert holder == Holder("127.0.0.1")
    secret, _ = access.make_short_key(holder, 600, "settings")
    assert (access.caller(request(secret)).key, access.short_content(request(secret))) == ("", "settings")
    assert access.short_content(request("any")) == ""


def test_pages_of_other_sites_make_no_keys() -> None:
    """A page of another site must not make keys of a service on this machine."""
    page = Request("POST", "/", headers=Headers([("Origin", "https://elsewhere.example")]), peer="127.0.0.1")
    with pytest.raises(Denied, match="may not use this service"):
        AccessRules().holder(page)
