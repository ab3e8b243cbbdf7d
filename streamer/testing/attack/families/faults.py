"""What breaks behind the service and around it, while it is attacked: sessions go on, and lose nothing."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from streamer.testing.attack.attack import Attack, Strike
from streamer.testing.attack.target import Target

FAMILY: Final = "faults"
# A model that has died is found out, its sessions are played again, and the processor is busy with starting another.
MENDED_S: Final = 40.0


async def model_killed(target: Target, rng: random.Random) -> Strike:
    """A process of the model is killed."""
    return _killed(target, rng, target.model_processes())


async def triton_killed(target: Target, rng: random.Random) -> Strike:
    """All of Triton is."""
    triton = target.triton()
    return _killed(target, rng, [] if triton is None else [triton])


async def service_paused(target: Target, rng: random.Random) -> Strike:
    """The service stands still for a moment, as when its machine is busy."""
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


def _killed(target: Target, rng: random.Random, pids: Sequence[int]) -> Strike:
    strike = Strike()
    if pids:
        target.disturb(MENDED_S)
        with suppress(ProcessLookupError):
            os.kill(rng.choice(pids), signal.SIGKILL)
        strike.add("killed")
    return strike


ATTACKS: Sequence[Attack] = (
    Attack("the model's process is killed", FAMILY, model_killed, every_s=150.0),
    Attack("Triton is killed", FAMILY, triton_killed, every_s=240.0),
    Attack("the service is paused", FAMILY, service_paused, every_s=90.0),
)
