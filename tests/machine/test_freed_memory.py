"""Memory that was freed."""

from __future__ import annotations

import subprocess
import sys

# Many small objects are freed between others that stay, so the heap cannot simply become shorter.
PROGRAM = """
import re
from pathlib import Path
from streamer.machine.freed_memory import give_back_freed_memory

def own_kb():
    return int(re.findall(r"^RssAnon:\\s*(\\d+) kB$", Path("/proc/self/status").read_text(), re.M)[0])

kept = [bytes(20_000) for _ in range(4000)]
del kept[:-1]
before = own_kb()
give_back_freed_memory()
print(before - own_kb())
"""


def test_it_is_given_back() -> None:
    """A process takes less memory after it has returned freed memory to the system."""
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 50_000
