"""Whether processes rest: all of their threads wait for something, and have done nothing since the last look. Linux.

A process that waits is told from one that gets no processor: the second is ready to run, or was stopped.
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

# For each thread, how often it was given the processor or gave it up.
Look = dict[int, tuple[int, ...]]


def look_at_session(leader: int) -> Look | None:
    """Look at all processes of the session that this process leads. None if one of their threads does not wait."""
    found: Look = {}
    for process in processes():
        if process.session != leader:
            continue
        try:
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                status = (thread / "status").read_text()
                if (state := _STATE.search(status)) is None or state[1] != _WAITS:
                    return None
                found[int(thread.name)] = tuple(map(int, _SWITCHES.findall(status)))
        except OSError:  # it has ended
            continue
    return found


def unread(descriptor: int) -> int:
    """Return how many bytes the other end has not read yet. This end is that of a pipe or of a local socket."""
    request = termios.FIONREAD if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else termios.TIOCOUTQ
    return int(struct.unpack("i", fcntl.ioctl(descriptor, request, bytes(4)))[0])
