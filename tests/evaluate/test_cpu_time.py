"""CPU time of processes below this one."""

from __future__ import annotations

import os
import subprocess
import sys

from streamer.evaluate.cpu_time import descendants_cpu_s

# A process of a process that works for a while and then waits to be ended.
WORK = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True); input()"
BOTH = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WORK!r}])"


def test_grandchildren_count() -> None:
    """Living descendants are counted, this process is not."""
    before = descendants_cpu_s(os.getpid())
    assert before is not None
    with subprocess.Popen([sys.executable, "-c", BOTH], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        during = descendants_cpu_s(os.getpid())
        assert during is not None
        assert 0.4 < during - before < 5
        process.communicate(b"\n")


def test_a_process_that_is_not_there() -> None:
    """The CPU time of a process that does not exist is not known."""
    assert descendants_cpu_s(2**30) is None
