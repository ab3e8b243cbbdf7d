"""A small process between us and tritonserver that leaves nothing behind, however we end.

    main() with the arguments FOLDER GRACE COMMAND…

Standard input is the lifeline: it ends when the program that started us closes it or dies, even by SIGKILL.
Then the server is asked to stop, killed after GRACE seconds at the latest, and its Python processes, its
shared memory and FOLDER are removed. The shared memory carries FOLDER's name. A lock on FOLDER, taken by our
parent and held by us, says that it is in use: what a killed guard left is found by its free lock at the next
start. The process number of the server goes to standard output, which the server's processes keep open: it ends when
all of them have. Standard error is the server's log, a file.

Should we be killed ourselves, the kernel kills all processes of the server; should we be stopped while our parent
ends, it lets us go on. Started without site-packages, we are there at once.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from streamer.triton import private_memory
from streamer.triton.server_folder import remove, sweep

# What the server writes before it takes the first request, and when nothing is in flight any more. Outside of that
# there is nothing to wait for: while models load it doesn't heed SIGTERM, and its exit is two seconds of polling.
SERVING, IDLE = b"Started GRPCInferenceService", b"All models are stopped"
LOG_HEAD, LOG_TAIL = 1 << 20, 1 << 16
POLL_SECONDS = 0.02
GROUP_SECONDS = 5.0  # a killed process that is stuck in a driver must not keep us
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
DRIVER, DRIVER_LOADER = "/dev/nvidia-uvm", "/usr/bin/nvidia-modprobe"


def main() -> int:
    """Run the server until it ends or standard input does; returns its exit status."""
    folder, grace, *command = sys.argv[1:]
    _ignore_terminal()
    wakeup = _wake_on(signal.SIGCHLD, signal.SIGTERM)
    libc = ctypes.CDLL(None)
    # The server's Python processes become our children when it dies, so that we can wait for them.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent, log_start = os.getppid(), os.fstat(2).st_size
    _signal_at_end_of(0, os.getpid(), signal.SIGCONT)
    _load_graphics_driver()
    watch = None if private_memory.close(libc) else private_memory.Watch(libc, Path(folder))
    server = _spawn(command, libc)
    with suppress(BrokenPipeError):  # our parent is gone already: the lifeline will say so too
        os.write(1, b"%d\n" % server)
    os.close(1)
    sweep(Path(folder).parent)
    status = _watch(server, parent, wakeup, watch)
    if status is None:
        status = _stop(server, float(grace), log_start)
    _end_group(server)
    remove(Path(folder))
    return status if status >= 0 else 128 - status


def _ignore_terminal() -> None:
    # Ctrl-C and a closed terminal are our parent's business: it ends us in order, through the lifeline.
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(name, signal.SIG_IGN)


def _wake_on(*signals: signal.Signals) -> int:
    def note(number: int, frame: FrameType | None) -> None:
        """The wakeup descriptor has it."""

    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for name in signals:
        signal.signal(name, note)
    return readable


def _signal_at_end_of(pipe: int, whom: int, what: signal.Signals) -> None:
    """The kernel sends a process, or with a negative number a group, this signal when nobody can write any more."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, whom)
    fcntl.fcntl(pipe, fcntl.F_SETSIG, what)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _load_graphics_driver() -> None:
    # Where nobody has used it since the machine started, CUDA would have it loaded by this program, which has rights
    # that a server with private memory cannot get any more.
    if os.path.exists(DRIVER_LOADER) and not os.path.exists(DRIVER):  # noqa: PTH110
        os.spawnv(os.P_WAIT, DRIVER_LOADER, [DRIVER_LOADER, "-c", "0", "-u"])


def _spawn(command: list[str], libc: ctypes.CDLL) -> int:
    guard = os.getpid()
    # Nobody but us can write into it, so it ends with us. Only the server's processes have the other end.
    bond, held = os.pipe()
    child = os.fork()
    if child:
        os.close(bond)
        return child
    try:
        os.close(held)
        os.setpgid(0, 0)  # one group for the server and its Python processes
        _signal_at_end_of(bond, -os.getpid(), signal.SIGKILL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == guard:  # else it died before the lines above
            for kept in (bond, os.dup(1)):
                os.set_inheritable(kept, True)
            os.dup2(2, 1)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for name in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(name, signal.SIG_DFL)
            os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"error: {command[0]} cannot be started: {error}\n".encode())
    finally:
        os._exit(127)


def _watch(server: int, parent: int, wakeup: int, watch: private_memory.Watch | None) -> int | None:
    """Wait for the server's end (its status) or for a reason to stop it (None)."""
    watched: list[int | private_memory.Watch] = [0, wakeup, *([watch] if watch else [])]
    while True:
        if watch:
            watch.look()
        # A process that our parent forked may hold the lifeline open after its death: look for that too.
        ready, _, _ = select.select(watched, [], [], 1.0)
        status = _reap(server)
        if status is not None:
            return status
        if wakeup in ready and signal.SIGTERM in os.read(wakeup, 512):
            return None
        if 0 in ready or os.getppid() != parent:
            return None


def _stop(server: int, grace: float, log_start: int) -> int:
    os.kill(server, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and not _is_idle(log_start):
        status = _reap(server)
        if status is not None:
            return status
        time.sleep(POLL_SECONDS)
    os.kill(server, signal.SIGKILL)
    while (status := _reap(server)) is None:
        time.sleep(POLL_SECONDS / 10)
    return status


def _is_idle(log_start: int) -> bool:
    try:
        if SERVING not in os.pread(2, LOG_HEAD, log_start):
            return True
        return IDLE in os.pread(2, LOG_TAIL, max(log_start, os.fstat(2).st_size - LOG_TAIL))
    except OSError:  # not a file: be patient instead
        return False


def _reap(server: int) -> int | None:
    """Take the status of every child that has ended; returns the server's if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == server:
                found = os.waitstatus_to_exitcode(ended[1])
    return found


def _end_group(server: int) -> None:
    """End the server's Python processes. By themselves they would notice its death a second later."""
    with suppress(ProcessLookupError):
        os.killpg(server, signal.SIGKILL)
    deadline = time.monotonic() + GROUP_SECONDS
    with suppress(ChildProcessError):  # no child is left
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(POLL_SECONDS / 10)
