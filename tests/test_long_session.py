"""Three minutes in one session through a real Triton and the bridge: the end is as good as the beginning."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pytest
from rapidfuzz.distance import Levenshtein

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.client import connect
from tests.samples import FILES, TWO_SEGMENTS_S, pcm

MINUTES = 3
PER_MS = 16
LONGEST_PAUSE_MS = 4000
GROWTH_MB = 8

Word = tuple[str, int, int]


@dataclass(frozen=True)
class Turn:
    """One recording with the pause after it. In every second round a flush separates it from the others."""

    name: str
    apart: bool
    flushed: bool  # before this one
    start_ms: int
    sound: bytes

    @property
    def end_ms(self) -> int:
        return self.start_ms + len(self.sound) // (2 * PER_MS)


def turns() -> Iterator[Turn]:
    """Recordings and pauses, shorter and longer than the silence that ends a segment."""
    dice = np.random.default_rng(1)
    noise = dice.integers(-4, 5, LONGEST_PAUSE_MS * PER_MS, dtype=np.int16).tobytes()
    at, apart = 0, True
    while at < MINUTES * 60_000:
        for name in FILES:
            beginning = pcm(name, TWO_SEGMENTS_S)
            sound = beginning[: len(beginning) // (2 * PER_MS) * 2 * PER_MS]
            # In separate rounds every recording ends with silence, so that its last word does not depend on the pause.
            pause = int(dice.integers(2000 if apart else 400, LONGEST_PAUSE_MS))
            turn = Turn(name, apart, apart or name == FILES[0], at, sound + noise[: pause * 2 * PER_MS])
            yield turn
            at = turn.end_ms
        apart = not apart


def process_memory_mb(triton: TritonServer) -> float:
    """The private memory of the model's process, without its mapped tables."""
    [stub] = [p for p in psutil.Process(triton.pid).children(recursive=True) if "stub" in p.name()]
    status = Path(f"/proc/{stub.pid}/status").read_text()
    return sum(int(size) for size in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE)) / 1024


async def said(url: str, plan: list[Turn], triton: TritonServer) -> tuple[dict[Turn, list[Word]], list[float]]:
    """The words of each turn, with times from its beginning, and the model's memory in each second."""
    words: list[Word] = []
    memory: list[float] = []
    async with connect(url) as session:

        async def send() -> None:
            for turn in plan:
                if turn.flushed:
                    await session.flush()
                await session.send(turn.sound)
            await session.stop()

        sending = asyncio.create_task(send())
        async for event in session:
            if event["type"] == "final":
                words += [(word["word"], word["start_ms"], word["end_ms"]) for word in event["words"]]
                memory.append(process_memory_mb(triton))
        await sending
    found: dict[Turn, list[Word]] = {turn: [] for turn in plan}
    for text, start, end in words:
        turn = next(turn for turn in plan if (start + end) / 2 < turn.end_ms)
        found[turn].append((text, start - turn.start_ms, end - turn.start_ms))
    return found, memory


def texts(words: list[Word]) -> list[str]:
    return [word for word, _, _ in words]


@pytest.mark.timeout(600)  # twenty seconds of processor time, on a machine that may have much else to do
async def test_three_minutes(service: Service, triton: TritonServer) -> None:
    """Nothing drifts, grows, is lost or is repeated, whatever ends a segment."""
    plan = list(turns())
    assert plan[-1].end_ms >= MINUTES * 60_000
    alone = {}
    for name in FILES:
        turn = next(turn for turn in plan if turn.name == name)
        first = Turn(name, True, False, 0, turn.sound)
        [alone[name]] = (await said(service.url, [first], triton))[0].values()
        assert alone[name]
    found, memory = await said(service.url, plan, triton)

    early = memory[len(memory) // 5]
    assert max(memory[len(memory) // 5 :]) - early < GROWTH_MB, memory

    shifts = []
    wrong = heard = expected = 0
    for turn, words in found.items():
        if turn.apart:
            # A segment depends only on its own audio, so words are identical, and times after rounding.
            assert texts(words) == texts(alone[turn.name]), turn.start_ms
            for word, before in zip(words, alone[turn.name], strict=True):
                assert max(abs(word[1] - before[1]), abs(word[2] - before[2])) <= 1, turn.start_ms
            continue
        # Here cuts depend on the steps, so a doubtful word may differ.
        expected += len(alone[turn.name])
        heard += len(words)
        wrong += Levenshtein.distance(texts(words), texts(alone[turn.name]))
        for block in SequenceMatcher(None, texts(words), texts(alone[turn.name]), autojunk=False).get_matching_blocks():
            shifts += [words[block.a + place][1] - alone[turn.name][block.b + place][1] for place in range(block.size)]
    assert abs(heard - expected) <= 0.05 * expected
    assert wrong <= 0.2 * expected
    assert abs(median(shifts)) <= 40
    assert abs(median(shifts[-20:])) <= 40
