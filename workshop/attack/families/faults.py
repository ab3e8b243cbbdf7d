"""Causes faults behind and around the service during attacks: sessions must go on and lose nothing."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from workshop.attack.attack import Attack, Strike, Target

FAMILY: Final = "faults"
# The time to notice that a model has ended, start another one, which keeps the processor busy, and replay sessions.
MENDED_S: Final = 40.0


async def model_killed(target: Target, rng: random.Random) -> Strike:
    """Kill a process of the model."""
    return _killed(target, rng, target.model_processes())


async def reader_killed(target: Target, rng: random.Random) -> Strike:
    """Kill the process of the reader, which no session may notice but by what has read its words."""
    return _killed(target, rng, target.reader_processes(), mended_s=0.0)


async def triton_killed(target: Target, rng: random.Random) -> Strike:
    """Kill Triton with all its models."""
    triton = target.triton()
    return _killed(target, rng, [] if triton is None else [triton])


async def service_paused(target: Target, rng: random.Random) -> Strike:
    """Stop the service for a moment, as when its machine is busy."""
    strike = Strike()
    if (pid := target.bridge()) is not None:
        target.disturb(5.0)
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(rng.uniform(0.2, 1.5))
        finally:
            os.kill(pid, signal.SIGCONT)
        strike.add("paused")
    return strike


def _killed(target: Target, rng: random.Random, pids: Sequence[int], mended_s: float = MENDED_S) -> Strike:
    strike = Strike()
    if pids:
        target.disturb(mended_s)
        with suppress(ProcessLookupError):
            os.kill(rng.choice(pids), signal.SIGKILL)
        strike.add("killed")
    return strike


ATTACKS: Sequence[Attack] = (
    Attack("the model's process is killed", FAMILY, model_killed, every_s=150.0),
    Attack("the reader's process is killed", FAMILY, reader_killed, every_s=60.0),
    Attack("Triton is killed", FAMILY, triton_killed, every_s=240.0),
    Attack("the service is paused", FAMILY, service_paused, every_s=90.0),
)
