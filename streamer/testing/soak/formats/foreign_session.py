"""The common part of sessions in foreign formats: trying again, the pace, the record, and the recognised words."""

from __future__ import annotations

import asyncio
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from streamer.testing.soak.scripted_client import PATIENCE_S, PAUSE_S, SessionRecord
from streamer.testing.soak.session_plan import Action, Audio, SessionPlan

# Temporary refusals: the service is full, or its recogniser is starting.
PASSING: Final = (429, 503)
TRY_LATER: Final = 1013
DONE: Final = 1000
_NO_LETTER: Final = re.compile(r"[^a-z ]")


class TriedAgain(Exception):
    """The session was refused for the moment. The message is a word for the reason."""


class Vanished(Exception):
    """The client has gone, as its plan says."""


class ForeignSession(ABC):
    """Carries out one plan. A session in a foreign format cannot be resumed, so it has one connection."""

    def __init__(self, plan: SessionPlan, url: str, began: float) -> None:
        """`began`: the beginning of the run, as time.monotonic()."""
        self.record = SessionRecord(plan)
        self.plan = plan
        self.netloc = urlsplit(url).netloc
        self.heard: list[str] = []  # the words of finals so far
        self._began = began
        self._rng = random.Random(f"{plan.seed} {plan.number} client")

    @property
    def ways(self) -> dict[str, Any]:
        """The options of the format."""
        return dict(self.plan.options["ways"])

    @abstractmethod
    async def converse(self) -> str:
        """Open a connection, do what the plan says, and return how it ended. Raises TriedAgain or Vanished."""

    async def run(self) -> SessionRecord:
        """Carry out the plan, and return the record."""
        record = self.record
        record.began = self._now()
        try:
            record.ended = await asyncio.wait_for(self._insist(), PATIENCE_S)
        except Vanished:
            record.actions["vanish"] += 1
            record.ended = "vanished"
        except asyncio.TimeoutError:
            record.ended = "stuck"
        except (OSError, EOFError, ConnectionClosed, InvalidHandshake) as error:
            record.ended = "lost"
            record.connections.append((self._now(), f"lost: {error!r}"))
        record.over = self._now()
        return record

    async def pieces(self) -> AsyncIterator[tuple[int, int] | None]:
        """Yield the audio to send now, as its first and last byte, and None for a flush. Raises Vanished."""
        since, plan = time.monotonic(), self.plan
        for item in plan.items:
            if isinstance(item, Action):
                raise Vanished
            if not isinstance(item, Audio):
                yield None
                continue
            if plan.pace is not None:
                await asyncio.sleep(since + item.end / plan.bytes_per_ms / 1000 / plan.pace - time.monotonic())
            self.record.sent = max(self.record.sent, item.end)
            yield item.begin, item.end

    def final(self, words: list[dict[str, Any]]) -> None:
        """Note words that will not change: `word`, and if the format has them `start_ms` and `end_ms`."""
        plain_words = [{**word, "word": plain(str(word["word"]))} for word in words]
        self.heard += [word["word"] for word in plain_words]
        self.record.events.append((self._now(), {"type": "final", "n": len(self.record.events), "words": plain_words}))

    def final_text(self, text: str) -> None:
        """Note text that will not change, without times."""
        self.final([{"word": word} for word in text.split()])

    def partial(self, text: str) -> None:
        """Check text that may change: it must be the beginning of the words that are not final yet."""
        rest = " ".join(word.text for word in self.plan.speeches[0].words[len(self.heard) :])
        if not rest.startswith(plain(text)):
            self.record.wrong.append(f"a partial has words that were not said there: {text!r}")

    async def _insist(self) -> str:
        while True:
            try:
                return await self.converse()
            except TriedAgain as refusal:
                self.record.refusals[str(refusal)] += 1
            except InvalidStatus as refusal:
                if refusal.response.status_code not in PASSING:
                    return f"status {refusal.response.status_code}"
                self.record.refusals[f"status {refusal.response.status_code}"] += 1
            if self.heard:
                self.record.wrong.append("the session was refused after it had results")
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))

    def _now(self) -> float:
        return time.monotonic() - self._began


def plain(text: str) -> str:
    """Return words without capitals and marks."""
    return _NO_LETTER.sub("", text.lower())


def closed(code: int | None, reason: str) -> str:
    """Return how a websocket with this close ended. Raises TriedAgain if there was no place for it."""
    if code == DONE:
        return "done"
    if code == TRY_LATER:
        raise TriedAgain("full")
    if "recogniser failed" in reason:
        return "failed"
    return f"close {code} {reason}"
