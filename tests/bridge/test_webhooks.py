"""Webhooks with real receivers: order, signatures, retries, bounds, which addresses are refused, and the shutdown."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from streamer.base.codes import QuietEnding
from streamer.base.events import Final as FinalEvent
from streamer.base.events import Partial
from streamer.bridge import webhooks
from streamer.bridge.access.keys import SecretFile
from streamer.bridge.access.quotas import Fetch
from streamer.bridge.access.rules import PortPolicy, WebhookRules
from streamer.bridge.session.messages import Numbered
from streamer.bridge.telemetry.metrics import DELIVERED, DROPPED, GIVEN_UP, Metrics
from streamer.bridge.webhooks import Subject, Webhook, Webhooks
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.errors import WireError
from streamer.wire.native_upload import PATH as UPLOADS
from tests.bridge.service_client import eventually, recognise
from tests.bridge.uploads.uploading import post, recording, sentences
from tests.project import DOCS
from workshop.soak.webhook_receiver import TAKEN, Delivery, WebhookReceiver, take

SECRET: Final = bytes(range(32))
LINE: Final = f"whsec_{base64.b64encode(SECRET).decode()}"
TALK: Final = sentences(say("hello world"), say("goodbye"))


@pytest.fixture
def secrets(tmp_path: Path) -> SecretFile:
    """Provide the secret of all callers."""
    (tmp_path / "secrets").write_text(f"{LINE}\n")
    return SecretFile(tmp_path / "secrets")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pauses and limits short."""
    monkeypatch.setattr(webhooks, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(webhooks, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(webhooks, "ATTEMPT_LIMIT_S", 0.5)


def opened(hooks: Webhooks, address: str, number: str = "ab12", protocol: str = "native") -> Webhook:
    """Open the webhook of a session."""
    webhook = hooks.open(Subject(number, protocol, "alice", "f00"), address, {"model": "default"})
    assert webhook is not None
    return webhook


def hooks_at(secrets: SecretFile, clients: Fetch = Fetch.ANY, calls: str = "") -> Webhooks:
    """Return the webhooks of a service."""
    return Webhooks(WebhookRules(clients, calls, secrets), Metrics())


def counted(hooks: Webhooks) -> dict[str, float]:
    """Return how many events had each outcome."""
    labels = (DELIVERED, GIVEN_UP, DROPPED)
    return {name: hooks.metrics.webhook_events.labels(name)._value.get() for name in labels}


def waiting(hooks: Webhooks) -> float:
    """Return how many events wait."""
    return hooks.metrics.webhook_events_waiting._value.get()


def verified(delivery: Delivery, secret: str = LINE) -> bool:
    """Check a signature with the program of the page for people."""
    program = re.search(r"```python\n(.*?)```", (DOCS / "how-to" / "webhooks.md").read_text(), re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {}
    exec(program[1], names)
    return bool(names["is_genuine"](secret, delivery.headers, delivery.body))


async def test_events_come_in_order_and_signed(secrets: SecretFile) -> None:
    """Each event has an id, the number within its session, and a signature over its time and its body."""
    hooks = hooks_at(secrets)
    async with WebhookReceiver() as receiver:
        webhook = opened(hooks, receiver.url)
        for number in range(20):
            webhook.tell("dtmf", {"digit": str(number)})
        webhook.end(QuietEnding.DONE, 1234)
        events = await receiver.until_ended()
    first, *digits, last = events
    assert [event["data"]["number"] for event in events] == list(range(1, 23))
    assert (first["type"], first["data"]["model"]) == ("started", "default")
    assert [event["data"]["digit"] for event in digits] == [str(number) for number in range(20)]
    assert (last["type"], last["data"]["reason"], last["data"]["audio_ms"]) == ("ended", "done", 1234)
    assert {(each["data"]["session"], each["data"]["protocol"], each["data"]["key"]) for each in events} == {
        ("ab12", "native", "alice")
    }
    assert len({delivery.headers["webhook-id"] for delivery in receiver.deliveries}) == len(events)
    assert all(map(verified, receiver.deliveries))
    forged = Delivery(receiver.deliveries[0].headers, receiver.deliveries[0].body.replace(b"native", b"twilio"))
    assert not verified(forged)
    assert all(abs(int(each.headers["webhook-timestamp"]) - time.time()) < 60 for each in receiver.deliveries)
    assert counted(hooks) == {DELIVERED: 22, GIVEN_UP: 0, DROPPED: 0}


async def test_words_without_their_context(secrets: SecretFile) -> None:
    """A final comes as its client gets it, but for what is not for readers. Partials do not come."""
    async with WebhookReceiver() as receiver:
        webhook = opened(hooks_at(secrets), receiver.url)
        webhook.note(Numbered(2, Partial(0, "hel", 0, 0, 500, ()), ""))
        webhook.note(Numbered(3, FinalEvent(0, "hello", 0, 400, 1000, 0.5, (), cut_ms=1000), ""))
        webhook.end(QuietEnding.DONE, 1000)
        _, final, _ = await receiver.until_ended()
    assert (final["type"], final["data"]["text"], final["data"]["end_ms"]) == ("final", "hello", 400)
    assert "context" not in final["data"]


@pytest.mark.usefixtures("impatient")
async def test_an_event_is_sent_again_until_it_is_taken(secrets: SecretFile, caplog: pytest.LogCaptureFixture) -> None:
    """With the same id and a new signature, and nothing overtakes it. The log and the metrics say it."""
    caplog.set_level(logging.INFO, "streamer.bridge")
    answers = iter([b"nonsense\r\n", b"", b"HTTP/1.1 500 No\r\n\r\n", b"HTTP/1.1 404 No\r\n\r\n"])

    async def answer(_: Delivery, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers, TAKEN))

    hooks = hooks_at(secrets)
    async with WebhookReceiver(answer) as receiver:
        webhook = opened(hooks, receiver.url)
        webhook.tell("dtmf", {"digit": "1"})
        webhook.end(QuietEnding.DONE, 0)
        await receiver.until_ended()
        ids = [delivery.headers["webhook-id"] for delivery in receiver.deliveries]
    assert ids == ["msg_ab12_1"] * 5 + ["msg_ab12_2", "msg_ab12_3"]
    assert all(map(verified, receiver.deliveries))
    assert hooks.metrics.webhook_failures._value.get() == 4
    said = [record.getMessage() for record in caplog.records]
    assert said.count("an event was not taken by its webhook, it is sent again") == 1
    assert said.count("the webhook answers again") == 1
    reasons = [vars(record)["fields"].get("reason") for record in caplog.records if record.levelname == "WARNING"]
    assert reasons == ["its answer is not valid HTTP"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["silent", "endless", "slow", "redirecting", "closed"])
async def test_hostile_receivers(secrets: SecretFile, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt ends at its limit, no redirect is followed, and the events are given up in time."""
    monkeypatch.setattr(webhooks, "GIVE_UP_S", 1.0)
    targets: list[str] = []

    async def answer(_: Delivery, writer: asyncio.StreamWriter) -> None:
        if kind == "redirecting":
            writer.write(f"HTTP/1.1 307 There\r\nLocation: {elsewhere.url}\r\n\r\n".encode())
        while kind in ("silent", "endless", "slow"):
            if kind != "silent":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" if kind == "endless" else b"H")
                await writer.drain()
            await asyncio.sleep(0 if kind == "endless" else 0.1)

    hooks = hooks_at(secrets)
    async with WebhookReceiver() as elsewhere, WebhookReceiver(answer) as receiver:
        with closing(socket.socket()) as unused:
            unused.bind(("127.0.0.1", 0))  # nobody listens there
            targets.append(f"http://127.0.0.1:{unused.getsockname()[1]}/" if kind == "closed" else receiver.url)
            webhook = opened(hooks, targets[0])
            webhook.end(QuietEnding.DONE, 0)
            await eventually(lambda: counted(hooks)[GIVEN_UP] == 2)
    assert counted(hooks) == {DELIVERED: 0, GIVEN_UP: 2, DROPPED: 0}
    assert waiting(hooks) == 0
    assert elsewhere.deliveries == []


async def test_a_slow_receiver_delays_no_other(secrets: SecretFile) -> None:
    """One caller has few attempts at a time, and the operator's address has threads of its own."""
    stuck = asyncio.Event()

    async def answer(_: Delivery, writer: asyncio.StreamWriter) -> None:
        await stuck.wait()
        writer.write(TAKEN)

    async with WebhookReceiver(answer) as slow, WebhookReceiver() as quick:
        hooks = hooks_at(secrets, calls=quick.url)
        for number in range(3 * webhooks.MOST_OF_CALLER):
            opened(hooks, slow.url, f"slow{number}").end(QuietEnding.DONE, 0)
        await eventually(lambda: len(slow.deliveries) == webhooks.MOST_OF_CALLER)
        opened(hooks, "", "call", "twilio").end(QuietEnding.DONE, 0)
        other = hooks.open(Subject("other", "native", "bob", "b0b"), quick.url, {})
        assert other is not None
        other.end(QuietEnding.DONE, 0)
        await eventually(lambda: len(quick.events) == 4)
        assert {event["data"]["session"] for event in quick.events} == {"call", "other"}
        assert len(slow.deliveries) == webhooks.MOST_OF_CALLER
        stuck.set()
        await eventually(lambda: waiting(hooks) == 0)


@pytest.mark.usefixtures("impatient")
async def test_a_receiver_that_is_gone(secrets: SecretFile) -> None:
    """After the status 410 nothing more is sent."""

    async def answer(_: Delivery, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 410 Gone\r\n\r\n")

    hooks = hooks_at(secrets)
    async with WebhookReceiver(answer) as receiver:
        webhook = opened(hooks, receiver.url)
        await eventually(lambda: counted(hooks)[GIVEN_UP] > 0)
        webhook.tell("dtmf", {})
        await asyncio.sleep(0.1)
        assert len(receiver.deliveries) == 1


async def test_what_waits_has_a_bound(secrets: SecretFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further events are dropped. Their numbers are missing, so the receiver knows."""
    monkeypatch.setattr(webhooks, "MOST_WAITING", 5)
    hooks = hooks_at(secrets)
    async with WebhookReceiver() as receiver:
        webhook = opened(hooks, receiver.url)
        for _ in range(10):
            webhook.tell("dtmf", {})
        await eventually(lambda: waiting(hooks) == 0)
        webhook.end(QuietEnding.DONE, 0)
        events = await receiver.until_ended()
    assert [event["data"]["number"] for event in events] == [1, 2, 3, 4, 5, 12]
    assert counted(hooks) == {DELIVERED: 6, GIVEN_UP: 0, DROPPED: 6}


async def test_all_webhooks_together_have_a_bound(secrets: SecretFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many sessions hold no more than that either."""
    monkeypatch.setattr(webhooks, "MOST_IN_ALL", 3)
    hooks = hooks_at(secrets)

    async def hold(_: Delivery, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with WebhookReceiver(hold) as receiver:
        for number in range(5):
            opened(hooks, receiver.url, f"s{number}")
        assert counted(hooks)[DROPPED] == 2
        await eventually(lambda: len(receiver.deliveries) == 3)
        await hooks.drain(0.0)
    assert waiting(hooks) == 0


@pytest.mark.parametrize(
    ("clients", "address", "words"),
    [
        (Fetch.OFF, "https://example.org/", "--webhooks"),
        (Fetch.PUBLIC, "http://127.0.0.1/", "no public address"),
        (Fetch.PUBLIC, "http://[::1]:5/", "no public address"),
        (Fetch.ANY, "http://user:word@example.org/", "without a name and a password"),
        (Fetch.ANY, "http://example.org:99999/", "http or https"),
    ],
)
async def test_refused_addresses(secrets: SecretFile, clients: Fetch, address: str, words: str) -> None:
    """What the operator has not allowed is refused at once."""
    with pytest.raises(WireError, match=words):
        opened(hooks_at(secrets, clients), address)


async def test_a_name_of_this_network_is_never_asked(
    secrets: SecretFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A name is looked up for each delivery, so one that means another machine later does not help."""
    monkeypatch.setattr(webhooks, "GIVE_UP_S", 0.0)
    async with WebhookReceiver() as receiver:
        hooks = hooks_at(secrets, Fetch.PUBLIC)
        webhook = opened(hooks, receiver.url.replace("127.0.0.1", "localhost"))
        webhook.end(QuietEnding.DONE, 0)
        await eventually(lambda: counted(hooks)[GIVEN_UP] == 2)
        assert receiver.deliveries == []
    assert "no public address" in str([vars(record).get("fields") for record in caplog.records])


async def test_a_caller_without_a_secret(tmp_path: Path) -> None:
    """Its webhook is refused: nobody could tell its events from those of others."""
    (tmp_path / "secrets").write_text(f"bob:{LINE}\n")
    hooks = hooks_at(SecretFile(tmp_path / "secrets"), calls="http://127.0.0.1:9/")
    with pytest.raises(WireError, match="no secret for this key"):
        opened(hooks, "http://127.0.0.1/")
    assert hooks.open(Subject("ab", "twilio", "alice", ""), "", {}) is None
    assert hooks.open(Subject("ab", "native", "bob", ""), "", {}) is None  # only calls have the operator's


async def test_two_secrets(tmp_path: Path) -> None:
    """While a secret is replaced, both sign."""
    another, third = (f"whsec_{base64.b64encode(bytes([each]) * 24).decode()}" for each in (1, 2))
    (tmp_path / "secrets").write_text(f"alice:{LINE}\nalice:{another}\n{third}\n")
    async with WebhookReceiver() as receiver:
        webhook = opened(hooks_at(SecretFile(tmp_path / "secrets")), receiver.url)
        webhook.end(QuietEnding.DONE, 0)
        await receiver.until_ended()
    [delivery, _] = receiver.deliveries
    assert verified(delivery)
    assert verified(delivery, another)
    assert not verified(delivery, third)


@pytest.mark.usefixtures("impatient")
async def test_the_shutdown_delivers_what_waits(secrets: SecretFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that waits for its next attempt is sent at once; what nobody takes is given up at the limit."""
    monkeypatch.setattr(webhooks, "FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(webhooks, "LONGEST_PAUSE_S", 600.0)
    refusing = True

    async def answer(delivery: Delivery, writer: asyncio.StreamWriter) -> None:
        await (take(delivery, writer) if not refusing else asyncio.sleep(0))

    async with WebhookReceiver(answer) as receiver, WebhookReceiver(lambda *_: asyncio.sleep(0)) as dead:
        hooks = hooks_at(secrets)
        for url, number in ((receiver.url, "good"), (dead.url, "dead")):
            opened(hooks, url, number).end(QuietEnding.DONE, 0)
        await eventually(lambda: hooks.metrics.webhook_failures._value.get() == 2)
        refusing = False
        await hooks.drain(2.0)
        assert [event["type"] for event in receiver.events] == ["started", "ended"]
    assert counted(hooks) == {DELIVERED: 2, GIVEN_UP: 2, DROPPED: 0}


# With a whole service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide a service whose clients may name any address."""
    path = tmp_path_factory.mktemp("secrets") / "secrets"
    path.write_text(f"{LINE}\n")
    policy = PortPolicy(webhooks=WebhookRules(Fetch.ANY, "", SecretFile(path)))
    with ExactService(slots=4, policy=policy) as exact:
        yield exact


async def test_a_session_with_a_webhook(service: ExactService) -> None:
    """Its client gets its words as always, and the webhook each final once, also after Triton was killed."""
    async with WebhookReceiver() as receiver:
        heard = await recognise(service.url, TALK.tobytes(), webhook=receiver.url)
        events = await receiver.until_ended()
    texts = [event["text"] for event in heard if event["type"] == "final"]
    assert texts == ["hello world", "goodbye"]
    assert [event["data"]["text"] for event in events if event["type"] == "final"] == texts
    assert (events[0]["type"], events[-1]["data"]["reason"]) == ("started", "done")


async def test_a_dead_webhook_is_no_reason_to_fail(service: ExactService) -> None:
    """The session does not notice."""
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        heard = await recognise(service.url, TALK.tobytes(), webhook=f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert [event["text"] for event in heard if event["type"] == "final"] == ["hello world", "goodbye"]


async def test_an_upload_with_a_webhook(service: ExactService) -> None:
    """A recording has one too."""
    async with WebhookReceiver() as receiver:
        path = f"{UPLOADS}?webhook={receiver.url}"
        status, _, content = await asyncio.to_thread(post, service.url, path, recording(TALK))
        events = await receiver.until_ended()
    assert (status, b"hello world" in content) == (200, True)
    assert [each["data"]["text"] for each in events if each["type"] == "final"] == ["hello world", "goodbye"]
    assert events[0]["data"]["protocol"] == "http"


def test_an_upload_with_an_address_that_is_none(service: ExactService) -> None:
    """It is refused with a sentence."""
    for address in ("ftp://example.org/", "http://user:word@example.org/"):
        status, _, content = post(service.url, f"{UPLOADS}?webhook={address}", recording(TALK))
        assert (status, json.loads(content)["error"]["code"]) == (400, "bad_option")
