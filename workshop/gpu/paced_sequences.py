"""Loads a Triton with sequences at the pace of speech, over gRPC from several processes and without the bridge."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from streamer.base.events import Final as FinalEvent
from streamer.base.json_types import JsonObject
from streamer.bridge.triton.link import Link, LinkError

STEP_S: Final = 0.32
STEP_BYTES: Final = 10_240
_BEGIN_S: Final = 3.0  # in which the processes start
_ANSWER_S: Final = 20.0
_OPENING_S: Final = 1.0  # the first step of each sequence comes at some moment of this time


@dataclass
class Heard:
    """What the sequences of one process, or of all, got."""

    steps_s: list[float] = field(default_factory=list)  # from the end of a step of audio to its answer
    ends_s: list[float] = field(default_factory=list)  # the same for the end of a sequence
    texts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    late_s: float = 0.0  # by how much a process sent a step too late at most

    def add(self, other: Heard) -> None:
        """Take what other sequences got."""
        self.steps_s += other.steps_s
        self.ends_s += other.ends_s
        self.texts += other.texts
        self.failures += other.failures
        self.late_s = max(self.late_s, other.late_s)

    def late_ms(self) -> float:
        """Return the time within which 95 of 100 steps were answered; infinite if there were no answers."""
        return _quantiles(self.steps_s).get("p95", float("inf"))

    def figures(self) -> JsonObject:
        """Return it in figures. Sequences of the same audio should have the same text."""
        return {
            "ended": self.texts.total(),
            "answers": len(self.steps_s),
            "step_ms": _quantiles(self.steps_s),
            "end_ms": _quantiles(self.ends_s),
            "texts": len(self.texts),
            "most_with_one_text": max(self.texts.values(), default=0),
            "failed": self.failures.total(),
            "failures": dict(self.failures.most_common(3)),
            "clients_late_ms": round(1000 * self.late_s),
        }


def load(
    address: str, audio: bytes, sequences: int, seconds: float, processes: int, options: Mapping[str, object]
) -> Heard:
    """Let this number of sequences hear the audio for so many seconds."""
    shares = [sequences // processes + (number < sequences % processes) for number in range(processes)]
    audio = audio[: round(seconds / STEP_S) * STEP_BYTES]
    heard = Heard()
    began = time.time() + _BEGIN_S
    # Processes of their own, because one that has spoken gRPC cannot be forked.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        work = [
            pool.submit(_process, address, audio, share, began, dict(options), number)
            for number, share in enumerate(shares)
            if share
        ]
        for each in work:
            heard.add(each.result())
    return heard


def _process(address: str, audio: bytes, sequences: int, began: float, options: dict[str, object], seed: int) -> Heard:
    return asyncio.run(_sequences(address, audio, sequences, began, options, random.Random(seed)))


async def _sequences(
    address: str, audio: bytes, sequences: int, began: float, options: dict[str, object], dice: random.Random
) -> Heard:
    heard = Heard()
    async with await Link.connect(address) as link:
        start = asyncio.get_running_loop().time() + began - time.time()
        await asyncio.gather(
            *(_sequence(link, audio, start + _OPENING_S * dice.random(), options, heard) for _ in range(sequences))
        )
    return heard


async def _sequence(link: Link, audio: bytes, start: float, options: dict[str, object], heard: Heard) -> None:
    """Send each step when it was spoken and the one before was answered: then all that were spoken meanwhile."""
    loop = asyncio.get_running_loop()
    steps, sent, texts = len(audio) // STEP_BYTES, 0, list[str]()
    sequence = link.sequence(options)
    try:
        while sent < steps:
            due = start + (sent + 1) * STEP_S
            if (wait_s := due - loop.time()) > 0:
                await asyncio.sleep(wait_s)
                heard.late_s = max(heard.late_s, loop.time() - due)
            spoken = min(steps, max(sent + 1, int((loop.time() - start) / STEP_S)))
            events = await sequence.send(audio[sent * STEP_BYTES : spoken * STEP_BYTES], timeout=_ANSWER_S)
            heard.steps_s += [loop.time() - start - (step + 1) * STEP_S for step in range(sent, spoken)]
            texts += [event.text for event in events if isinstance(event, FinalEvent)]
            sent = spoken
        events = await sequence.send(end=True, timeout=_ANSWER_S)
        heard.ends_s.append(loop.time() - start - steps * STEP_S)
        texts += [event.text for event in events if isinstance(event, FinalEvent)]
    except LinkError as error:
        heard.failures[str(error)[:100]] += 1
        sequence.abandon()
    else:
        heard.texts[" ".join(texts)] += 1


def _quantiles(times: Sequence[float]) -> dict[str, int]:
    ordered = sorted(times)
    return {f"p{part}": round(1000 * ordered[len(ordered) * part // 100]) for part in (50, 95, 99)} if ordered else {}
