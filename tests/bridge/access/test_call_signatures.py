"""Signatures of Twilio over the address of a stream, at the service and behind a proxy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from streamer.bridge.access.call_signatures import SETTINGS, SIGNATURE, CallSignatures
from streamer.bridge.access.keys import KeyFile, SecretFile
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.request import Headers, Request
from tests.bridge.access.bare_port import ALICE, OTHER, TOKEN, bearer, signature

ADDRESS = "wss://voice.example.org/twilio"


@pytest.fixture
def tokens(tmp_path: Path) -> SecretFile:
    """Provide the tokens of two accounts."""
    (tmp_path / "tokens").write_text(f"# accounts\nalice:{TOKEN}\nbob:{OTHER}\n")
    return SecretFile(tmp_path / "tokens")


def request(headers: Mapping[str, str], path: str = "/twilio", query: str = "", peer: str = "192.0.2.1") -> Request:
    """Return the request for a stream."""
    return Request("GET", path, query, Headers(headers.items()), peer)


def key_of(rules: AccessRules, asked: Request) -> str:
    """Return the key as which a call counts."""
    admittance = rules.enter_call(asked)
    admittance.leave()
    return admittance.caller.key


@pytest.mark.parametrize(
    "address",
    [
        ADDRESS,
        "https://voice.example.org/twilio",
        "wss://voice.example.org:443/twilio",
    ],
)
def test_a_signed_stream(tokens: SecretFile, keys: KeyFile, address: str) -> None:
    """The name beside the token is the key as which its calls count. Twilio may sign the usual port or leave it out."""
    asked = request({"Host": "voice.example.org", SIGNATURE: signature(address)})
    assert key_of(AccessRules(keys, calls=CallSignatures(tokens)), asked) == "alice"
    assert key_of(AccessRules(calls=CallSignatures(tokens)), asked) == ""  # there are no keys


def test_a_port_of_its_own(tokens: SecretFile) -> None:
    """It may be signed or not."""
    rules = AccessRules(calls=CallSignatures(tokens))
    for address in ("wss://voice.example.org:8443/twilio", ADDRESS):
        key_of(rules, request({"Host": "voice.example.org:8443", SIGNATURE: signature(address)}))


def test_the_other_token_and_the_query(tokens: SecretFile, keys: KeyFile) -> None:
    """Each account has its own, and the whole address counts."""
    rules = AccessRules(keys, calls=CallSignatures(tokens))
    signed = {"Host": "voice.example.org", SIGNATURE: signature(f"{ADDRESS}?a=b", OTHER)}
    assert key_of(rules, request(signed, query="a=b")) == "bob"
    with pytest.raises(Denied, match="not valid"):
        key_of(rules, request(signed))


def test_a_newer_algorithm(tokens: SecretFile) -> None:
    """A header names it. One that is unknown is no signature."""
    rules = AccessRules(calls=CallSignatures(tokens))
    signed = {"Host": "voice.example.org", SIGNATURE: signature(ADDRESS, algorithm=hashlib.sha256)}
    key_of(rules, request({**signed, SETTINGS: "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256"}))
    for settings in ("", "algorithm=HMAC_SHA1", "algorithm=HMAC_MD5"):
        with pytest.raises(Denied, match="not valid"):
            key_of(rules, request({**signed, SETTINGS: settings}))


@pytest.mark.parametrize(
    "given", ["", "wrong", "\udcff", signature(ADDRESS, "e" * 32), signature("wss://else.org/twilio")]
)
def test_a_wrong_signature(tokens: SecretFile, keys: KeyFile, given: str) -> None:
    """It is refused with and without keys. A key, or an option, admits it nevertheless."""
    headers = {"Host": "voice.example.org", **({SIGNATURE: given} if given else {})}
    for rules in (AccessRules(calls=CallSignatures(tokens)), AccessRules(keys, calls=CallSignatures(tokens))):
        with pytest.raises(Denied) as denied:
            key_of(rules, request(headers))
        assert (denied.value.code, denied.value.status) == ("unauthorized", 401)
    with pytest.raises(Denied, match="needs a valid signature"):
        key_of(AccessRules(), request({"Host": "voice.example.org"}))
    rules = AccessRules(keys, calls=CallSignatures(tokens))
    assert key_of(rules, request({**headers, **bearer(ALICE.secret)})) == "alice"
    assert key_of(AccessRules(calls=CallSignatures(tokens, unsigned=True)), request(headers)) == ""
    with pytest.raises(Denied):  # the option does not replace keys
        key_of(AccessRules(keys, calls=CallSignatures(tokens, unsigned=True)), request(headers))


def test_behind_a_proxy(tokens: SecretFile) -> None:
    """The name that a trusted proxy tells counts. From others, it does not."""
    headers = {"Host": "10.0.0.1:8080", "X-Forwarded-Host": "voice.example.org", SIGNATURE: signature(ADDRESS)}
    rules = AccessRules(calls=CallSignatures(tokens), proxies=Proxies(["10.0.0.0/8"]))
    key_of(rules, request(headers, peer="10.0.0.2"))
    with pytest.raises(Denied):
        key_of(rules, request(headers, peer="192.0.2.1"))


def test_the_address_of_the_operator(tokens: SecretFile) -> None:
    """Where a proxy changes the path, its operator says what Twilio was told. Nothing else is valid then."""
    rules = AccessRules(calls=CallSignatures(tokens, address="wss://voice.example.org/phone/streams"))
    changed = {"Host": "internal", SIGNATURE: signature("wss://voice.example.org/phone/streams")}
    key_of(rules, request(changed))
    with pytest.raises(Denied):
        key_of(rules, request({"Host": "voice.example.org", SIGNATURE: signature(ADDRESS)}))


def test_a_token_that_is_removed(tokens: SecretFile, tmp_path: Path) -> None:
    """The file is read again at once."""
    rules = AccessRules(calls=CallSignatures(tokens))
    asked = request({"Host": "voice.example.org", SIGNATURE: signature(ADDRESS)})
    key_of(rules, asked)
    (tmp_path / "tokens").write_text(f"bob:{OTHER}\n")
    with pytest.raises(Denied):
        key_of(rules, asked)
