"""Keeps other users from reading Triton's shared memory, which Triton itself lets every user read.

Triton's Python backend creates each region with mode 0644, and then sets this mode a second time, so a umask alone has
no effect. `close()` makes the kernel ignore exactly that second call, in this process and its children. Together with a
umask, a region is then private from the start. If the kernel has no filters for system calls, `Watch` closes each
region soon after it appears; a process that has opened it before can still read it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from pathlib import Path

from streamer.bridge.triton.server_folder import SHARED_MEMORY, close_regions

MODE_OF_ALL = 0o644  # the mode of the server's regions


# The code of each architecture in a filter, and the architecture's number of the system call fchmod.
ARCHITECTURES = {"x86_64": (0xC000003E, 91), "aarch64": (0xC00000B7, 52)}


_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K


_ALLOW, _FAIL = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO to which the error is added


_ARCHITECTURE, _NUMBER, _ARGUMENTS = 4, 0, (16, 24)  # offsets in struct seccomp_data, little-endian


_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38


_IN_ATTRIB, _IN_CREATE, _IN_NONBLOCK = 0x4, 0x100, os.O_NONBLOCK


def close(libc: ctypes.CDLL) -> bool:
    """Make new files of this process and its children private. Return whether this works for shared memory too."""
    os.umask(0o077)
    with suppress(KeyError):
        architecture, fchmod = ARCHITECTURES[os.uname().machine]
        # With error 0 the call returns success and does nothing.
        program = filter_program(architecture, fchmod, 1, MODE_OF_ALL, error=0)
        # A process without extra rights may install a filter only after it gives up the rights of setuid programs.
        if install(libc, program) or (not libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) and install(libc, program)):
            return _works()
    return False


class Watch:
    """Closes the regions of one server as they appear, for kernels on which `close` does not work."""

    def __init__(self, libc: ctypes.CDLL, folder: Path) -> None:
        self._folder = folder
        self._queue = libc.inotify_init1(_IN_NONBLOCK)
        libc.inotify_add_watch(self._queue, os.fsencode(SHARED_MEMORY), _IN_CREATE | _IN_ATTRIB)

    def fileno(self) -> int:
        """Return a descriptor that is readable when regions have appeared or changed."""
        return int(self._queue)

    def look(self) -> None:
        """Close all regions that exist now."""
        with suppress(OSError):
            os.read(self._queue, 1 << 16)
        close_regions(self._folder)


def filter_program(architecture: int, call: int, argument: int, value: int, error: int) -> bytes:
    """Return a filter: this system call returns this error if its argument (0 or 1) has this value."""
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, 5, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 0, 3, call),
        (_LOAD, 0, 0, _ARGUMENTS[argument]),
        (_JUMP_IF_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _FAIL + error),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def install(libc: ctypes.CDLL, program: bytes) -> bool:
    """Make the kernel filter the calls of this process and its children, for good. Return whether it does."""
    steps = ctypes.create_string_buffer(program, len(program))
    reference = struct.pack("@HP", len(program) // 8, ctypes.addressof(steps))
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, reference, 0, 0) == 0)


def _works() -> bool:
    """Return whether the filter works. Some sandboxes accept a filter and ignore it."""
    file = os.memfd_create("tried")
    try:
        os.fchmod(file, 0o600)
        os.fchmod(file, MODE_OF_ALL)
        return os.fstat(file).st_mode & 0o777 == 0o600
    finally:
        os.close(file)
