"""What the service sees of the processes that decode recordings."""

from __future__ import annotations

import asyncio
import os
import subprocess

from streamer.bridge.uploads.decoding import look_at_session
from tests.bridge.descriptors import no_descriptors
from tests.bridge.service_client import eventually


async def test_a_process_that_waits_rests() -> None:
    """Two looks at a session that waits are the same; without a free descriptor nothing is known about it."""
    process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    try:
        await eventually(lambda: look_at_session(process.pid) is not None)
        assert look_at_session(process.pid) == look_at_session(process.pid)
        with no_descriptors():
            assert look_at_session(process.pid) is None
    finally:
        process.kill()
        await process.wait()


def test_a_session_that_is_over() -> None:
    """Nothing is known of a session without processes, and this process, which works, does not rest."""
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
        assert look_at_session(process.pid) is None
    assert look_at_session(os.getsid(0)) is None
