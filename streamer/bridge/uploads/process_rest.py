"""Detects processes that rest: all of their threads wait, and have done nothing since the last look. Only on Linux.

A process that waits differs from one that gets no processor time: the second one is ready to run, or was stopped.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct
import termios
from pathlib import Path
from typing import Final

from streamer.machine.processes import processes

_WAITS: Final = "S"
_STATE: Final = re.compile(r"^State:\s+(\S)", re.MULTILINE)
_SWITCHES: Final = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)

# The numbers of context switches of each thread.
Look = dict[int, tuple[int, ...]]


def look_at_session(leader: int) -> Look | None:
    """Return what all processes of this leader's session have done; None if one of their threads does not wait."""
    look: Look = {}
    for process in processes():
        if process.session != leader:
            continue
        try:
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                status = (thread / "status").read_text()
                if (state := _STATE.search(status)) is None or state[1] != _WAITS:
                    return None
                look[int(thread.name)] = tuple(map(int, _SWITCHES.findall(status)))
        except OSError:  # the process or thread has ended
            continue
    return look


def unread(descriptor: int) -> int:
    """Return how many bytes the other end of a pipe or local socket has not read yet."""
    request = termios.FIONREAD if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else termios.TIOCOUTQ
    return int(struct.unpack("i", fcntl.ioctl(descriptor, request, bytes(4)))[0])
