"""Posts the words of sessions to the addresses that clients or the operator name: signed, in order, with retries.

A webhook is one session's: it delivers one event after another, and tries each again until its receiver has answered
with a status of success, or too much time has passed. Nothing of this holds the session up, or makes it fail. The
headers are those of Standard Webhooks (standardwebhooks.com), so there are libraries for receivers.
docs/how-to/webhooks.md is for people.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import random
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final
from weakref import WeakValueDictionary

from streamer.base.codes import ErrorCode, Reason
from streamer.base.events import Error, SpeakerMerge, Speakers, content
from streamer.base.events import Final as FinalEvent
from streamer.base.json_types import JsonObject
from streamer.base.web_address import reason_of
from streamer.bridge.access.quotas import Fetch
from streamer.bridge.access.rules import WebhookRules
from streamer.bridge.http.outgoing import TROUBLE, Exchange, Unreachable, is_public, parts_of
from streamer.bridge.session.messages import Numbered
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import DELIVERED, DROPPED, GIVEN_UP, HTTP, Metrics
from streamer.wire.dialects.formats import FORMATS
from streamer.wire.errors import bad

log = Log("streamer.bridge")

ATTEMPT_LIMIT_S: Final = 10.0  # for the connection, the request and the head of the answer, together
GIVE_UP_S: Final = 300.0  # an event that is older is not tried again
FIRST_PAUSE_S: Final = 1.0  # between two attempts; it doubles each time
LONGEST_PAUSE_S: Final = 30.0
DRAIN_PAUSE_S: Final = 0.5  # while the service shuts down
# Events that wait, of one session and of all together, and their bytes. Further ones are dropped.
MOST_WAITING: Final = 1000
LARGEST_WAITING: Final = 1024 * 1024
MOST_IN_ALL: Final = 20_000
LARGEST_IN_ALL: Final = 64 * 1024 * 1024
# Attempts at a time: to the operator's address, to those of all clients, and to those of one caller.
MOST_OF_OPERATOR: Final = 16
MOST_OF_CLIENTS: Final = 32
MOST_OF_CALLER: Final = 4
# The protocols whose sessions have the webhook of the operator.
CALLS: Final = tuple(kind.protocol for kind in FORMATS.values() if kind.telephone)
_TOLD: Final = (FinalEvent, SpeakerMerge, Speakers, Error)
_OF_EACH: Final = ("call_sid", "stream_sid")  # what each event says of a call; `started` says everything
_GONE: Final = 410  # the receiver wants no more


@dataclass(frozen=True)
class Subject:
    """The session of a webhook."""

    number: str
    protocol: str
    key: str  # the name of the caller's key
    caller: str  # its pseudonym


class Webhooks:
    """All webhooks of a service."""

    def __init__(self, rules: WebhookRules, metrics: Metrics) -> None:
        self.metrics = metrics
        self.draining = asyncio.Event()
        self._rules = rules
        self._waiting = self._bytes = 0  # events of all webhooks
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._all_operators = asyncio.Semaphore(MOST_OF_OPERATOR)
        self._all_clients = asyncio.Semaphore(MOST_OF_CLIENTS)
        self._of_operator = ThreadPoolExecutor(MOST_OF_OPERATOR, "webhooks")
        self._of_clients = ThreadPoolExecutor(MOST_OF_CLIENTS, "webhooks-of-clients")
        self._context: ssl.SSLContext | None = None

    def open(self, subject: Subject, address: str, about: Mapping[str, object]) -> Webhook | None:
        """Return the webhook of a session; None if it has none. Raise WireError if its client may not have this one.

        `address`: the one that the client names, or "". `about`: what is said of the session at its start.
        """
        secrets = () if self._rules.secrets is None else self._rules.secrets.of(subject.key)
        if address:
            self._check(address, bool(secrets))
        elif subject.protocol not in CALLS or not self._rules.calls:
            return None
        elif not secrets:
            log.warning("a call has no webhook, because there is no secret for its account", key=subject.key)
            return None
        if address:
            remedy = "" if self._rules.clients is Fetch.ANY else "--webhooks any"
            route = _Route(address, remedy, self._of_clients, self._lane(subject.caller), self._all_clients)
        else:
            alone = asyncio.Semaphore()  # one event after another: there is no other limit
            route = _Route(self._rules.calls, "", self._of_operator, alone, self._all_operators)
        webhook = Webhook(self, route, subject, about)
        task = asyncio.create_task(webhook.deliver())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return webhook

    def signature(self, key: str, id: str, timestamp: int, body: bytes) -> str:
        """Return the signatures of a delivery by all secrets of a key."""
        secrets = () if self._rules.secrets is None else self._rules.secrets.of(key)
        return " ".join(sign(secret, id, timestamp, body) for secret in secrets)

    def context(self) -> ssl.SSLContext:
        """Return what connections with TLS need. To make it takes twenty milliseconds."""
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def take(self, size: int) -> bool:
        """Count an event that waits. Return False if there are too many."""
        if self._waiting >= MOST_IN_ALL or self._bytes + size > LARGEST_IN_ALL:
            return False
        self._count(1, size)
        return True

    def give_back(self, size: int) -> None:
        """Count an event that waits no more."""
        self._count(-1, -size)

    async def drain(self, limit_s: float) -> None:
        """Deliver what waits within this time, and give up the rest, because the service shuts down."""
        self.draining.set()
        tasks = list(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=limit_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for threads in (self._of_operator, self._of_clients):
            threads.shutdown(wait=False, cancel_futures=True)

    def _check(self, address: str, signed: bool) -> None:
        """Raise WireError if a client may not name this address."""
        if self._rules.clients is Fetch.OFF:
            why = "the operator of the service has not allowed it (--webhooks)"
        elif not signed:
            why = "the operator of the service has no secret for this key"
        else:
            try:
                host = parts_of(address).hostname or ""
                with suppress(ValueError):  # it is a name, which is looked up for each delivery
                    if self._rules.clients is Fetch.PUBLIC and not is_public(str(ipaddress.ip_address(host))):
                        raise Unreachable("it is no public address (--webhooks any)")
                return
            except Unreachable as wrong:
                why = str(wrong)
        raise bad(ErrorCode.BAD_OPTION, f"'webhook' is refused: {why}.")

    def _lane(self, caller: str) -> asyncio.Semaphore:
        lane = self._lanes.get(caller)
        if lane is None:
            lane = self._lanes[caller] = asyncio.Semaphore(MOST_OF_CALLER)
        return lane

    def _count(self, number: int, size: int) -> None:
        self._waiting += number
        self._bytes += size
        self.metrics.webhook_events_waiting.set(self._waiting)


@dataclass(frozen=True)
class _Route:
    """How events of a webhook are delivered."""

    address: str
    remedy: str  # the setting that would allow an address that is not public; empty: any is allowed
    threads: ThreadPoolExecutor
    caller: asyncio.Semaphore  # how many attempts of one caller go on at a time
    all: asyncio.Semaphore  # as many as there are threads


@dataclass(frozen=True)
class _Event:
    id: str
    body: bytes
    made_at: float


class Webhook:
    """The webhook of one session."""

    def __init__(self, hooks: Webhooks, route: _Route, subject: Subject, about: Mapping[str, object]) -> None:
        self._hooks = hooks
        self._route = route
        self._subject = subject
        self._waiting: deque[_Event] = deque()
        self._size = 0  # bytes of them
        self._number = 0  # of the last event
        self._news = asyncio.Event()
        self._over = False  # no more events come
        self._failures = 0  # attempts in a row
        self._lost = 0  # events that were dropped or given up
        self._common: JsonObject = {"session": subject.number, "protocol": subject.protocol}
        if subject.key:
            self._common["key"] = subject.key
        self._common |= {name: about[name] for name in _OF_EACH if name in about}
        self._tracks: object = about.get("tracks")
        self.tell("started", about)

    # What the session says

    def note(self, numbered: Numbered) -> None:
        """Take a message of the session, whether its client gets it or not."""
        message = numbered.message
        if not isinstance(message, _TOLD):
            return
        told = content(message)
        told.pop("context", None)  # it is not for readers
        channel = told.get("channel", 0)
        if isinstance(self._tracks, Sequence) and isinstance(channel, int) and channel < len(self._tracks):
            told["track"] = self._tracks[channel]
        self.tell(message.type, told)

    def tell(self, type: str, data: Mapping[str, object]) -> None:
        """Add an event. If too many wait, it is dropped, and its number is missing."""
        self._number += 1
        made_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = {"type": type, "timestamp": made_at, "data": {**self._common, "number": self._number, **data}}
        body = json.dumps(event, separators=(",", ":")).encode()
        full = len(self._waiting) >= MOST_WAITING or self._size + len(body) > LARGEST_WAITING
        if self._over or full or not self._hooks.take(len(body)):
            self._lose(DROPPED)
            return
        self._waiting.append(_Event(f"msg_{self._subject.number}_{self._number}", body, time.monotonic()))
        self._size += len(body)
        self._news.set()

    def end(self, reason: Reason | None, audio_ms: int) -> None:
        """Add the last event: why the session ended, and how much audio was heard."""
        if not self._over:
            self.tell("ended", {"reason": str(reason or ""), "audio_ms": audio_ms})
            self._over = True
            self._news.set()

    # Deliveries

    async def deliver(self) -> None:
        """Deliver events until the last one."""
        try:
            while self._waiting or not self._over:
                if not self._waiting:
                    self._news.clear()
                    await self._news.wait()
                    continue
                event = self._waiting[0]
                status, trouble = await self._attempt(event)
                if not trouble:
                    if self._failures:
                        log.info("the webhook answers again", failures=self._failures)
                    self._failures = 0
                    self._remove(DELIVERED)
                    continue
                self._note_failure(trouble)
                if status == _GONE:
                    self._over = True
                    return
                if time.monotonic() - event.made_at >= GIVE_UP_S:
                    self._remove(GIVEN_UP)
                else:
                    await self._pause()
        except Exception as error:
            self._hooks.metrics.failures(HTTP).report("a webhook failed", error)
        finally:
            self._over = True
            while self._waiting:
                self._remove(GIVEN_UP)
            if self._lost:
                log.warning("events of a webhook are lost", events=self._lost)

    async def _attempt(self, event: _Event) -> tuple[int, str]:
        """Try to deliver an event. Return the status of the answer, or 0, and what went wrong; "" if nothing did."""
        timestamp = int(time.time())
        signature = self._hooks.signature(self._subject.key, event.id, timestamp, event.body)
        if not signature:
            return 0, "there is no secret for its key any more"
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature,
        }
        loop = asyncio.get_running_loop()
        route = self._route
        context = self._hooks.context() if route.address.startswith("https") else None
        async with route.caller, route.all:
            exchange = Exchange(ATTEMPT_LIMIT_S, remedy=route.remedy, context=context)
            asking = loop.run_in_executor(route.threads, _post, exchange, route.address, headers, event.body)
            try:
                # The thread itself may wait longer, for a name that nobody knows.
                done, _ = await asyncio.wait({asking}, timeout=ATTEMPT_LIMIT_S)
            finally:
                if not asking.done():
                    asking.cancel()
                    exchange.interrupt()
        if not done:
            return 0, f"no answer came within {ATTEMPT_LIMIT_S:g} s"
        status, trouble = asking.result()
        return status, trouble if trouble or 200 <= status < 300 else f"HTTP status {status}"

    async def _pause(self) -> None:
        """Wait before the next attempt, longer each time, and not as long as others."""
        doubled = FIRST_PAUSE_S * 2 ** min(self._failures - 1, 16)
        pause_s = min(doubled, LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)
        if self._hooks.draining.is_set():
            await asyncio.sleep(min(pause_s, DRAIN_PAUSE_S))
            return
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._hooks.draining.wait(), pause_s)

    def _note_failure(self, trouble: str) -> None:
        self._failures += 1
        self._hooks.metrics.webhook_failures.inc()
        if self._failures == 1:
            log.warning("an event was not taken by its webhook, it is sent again", reason=trouble)

    def _remove(self, result: str) -> None:
        """Remove the event that waits longest."""
        event = self._waiting.popleft()
        self._size -= len(event.body)
        self._hooks.give_back(len(event.body))
        if result == DELIVERED:
            self._hooks.metrics.webhook_events.labels(result).inc()
        else:
            self._lose(result)

    def _lose(self, result: str) -> None:
        self._lost += 1
        self._hooks.metrics.webhook_events.labels(result).inc()


def _post(exchange: Exchange, address: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Send an event. Return the status of the answer, or 0, and what went wrong. The content is not read."""
    try:
        return exchange.ask(address, headers, "POST", body).status, ""
    except Unreachable as error:
        return 0, str(error)
    except TROUBLE as error:
        # What a receiver says in place of an answer is not for the log.
        known = isinstance(error, OSError)
        return 0, reason_of(error, ATTEMPT_LIMIT_S) if known else "its answer is not valid HTTP"
    finally:
        exchange.close()


def sign(secret: bytes, id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a delivery: HMAC with SHA-256 over its id, its time and its body."""
    digest = hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
