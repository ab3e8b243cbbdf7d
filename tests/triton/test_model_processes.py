"""The memory that the processes of a model hold."""

from __future__ import annotations

import os
import subprocess
import sys

from streamer.triton.model_processes import memory_of


def test_processes_of_a_model() -> None:
    """Children of any depth count if their command names the model's code; other processes do not."""
    here = os.getpid()
    waits = "import sys; print(flush=True); sys.stdin.read()"
    starts = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    commands = [[waits, "/models/mine/1/model.py"], [starts, waits, "/models/other/2/model.py"]]
    started = [
        subprocess.Popen([sys.executable, "-c", *each], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for each in commands
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # then it has begun
        assert (memory_of(here, "mine") or 0) > 100_000
        assert (memory_of(here, "other") or 0) > 100_000
        assert memory_of(here, "models") is None
        assert memory_of(here, "min") is None
    finally:
        for process in started:
            process.communicate()
    assert memory_of(here, "mine") is None
