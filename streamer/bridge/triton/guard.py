"""The guard: a small process between Streamer and tritonserver that cleans up in whatever way Streamer ends.

    main() with the arguments FOLDER GRACE COMMAND…

Standard input is the lifeline. It ends when the parent, which is the program that started the guard, closes it or dies,
even by SIGKILL. Then the guard asks the server to stop, kills it after at most GRACE seconds, and removes its Python
processes, its shared memory, FOLDER, and what Triton leaves elsewhere. The names of the shared memory begin with
FOLDER's name. The parent locks FOLDER and the guard keeps the lock, which shows that FOLDER is in use. If a guard was
killed, the lock is free, and the next start removes the folder. The guard writes the server's process number to
standard output. All processes of the server keep this pipe open, so it ends when they have ended. Standard error is the
server's log, a file.

If the guard is killed, the kernel kills all processes of the server. If the guard is stopped (SIGSTOP) while its parent
ends, the kernel lets the guard continue. The guard imports no site-packages, so that it starts at once.
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

from streamer.bridge.triton import private_memory
from streamer.bridge.triton.server_folder import remove, sweep, sweep_environments

# What the server logs before it accepts the first request, and once nothing is in flight any more. Before and after
# that there is nothing to wait for: it ignores SIGTERM while models load, and polls for two seconds before it exits.
SERVING, IDLE = b"Started GRPCInferenceService", b"All models are stopped"
LOG_HEAD, LOG_TAIL = 1 << 20, 1 << 16
POLL_SECONDS = 0.02
GROUP_SECONDS = 5.0  # do not wait longer for a killed process: it may be stuck in a driver
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
DRIVER, DRIVER_LOADER = "/dev/nvidia-uvm", "/usr/bin/nvidia-modprobe"


def main() -> int:
    """Run the server until it ends or standard input ends. Return the server's exit status."""
    folder, grace, *command = sys.argv[1:]
    _ignore_terminal()
    wakeup = _wake_on(signal.SIGCHLD, signal.SIGTERM)
    libc = ctypes.CDLL(None)
    # When the server dies, its Python processes become children of the guard, so that the guard can wait for them.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent, log_start = os.getppid(), os.fstat(2).st_size
    _signal_at_end_of(0, os.getpid(), signal.SIGCONT)
    _load_graphics_driver()
    watch = None if private_memory.close(libc) else private_memory.Watch(libc, Path(folder))
    server = _spawn(command, libc)
    with suppress(BrokenPipeError):  # the parent has ended already; the lifeline will end too
        os.write(1, b"%d\n" % server)
    os.close(1)
    sweep(Path(folder).parent)
    status = _watch(server, parent, wakeup, watch)
    if status is None:
        status = _stop(server, float(grace), log_start)
    _end_group(server)
    remove(Path(folder))
    sweep_environments()
    return status if status >= 0 else 128 - status


def _ignore_terminal() -> None:
    # The parent handles Ctrl-C and a closed terminal, and ends the guard through the lifeline.
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(name, signal.SIG_IGN)


def _wake_on(*signals: signal.Signals) -> int:
    def note(number: int, frame: FrameType | None) -> None:
        """Do nothing: the signal arrives through the wakeup descriptor."""

    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for name in signals:
        signal.signal(name, note)
    return readable


def _signal_at_end_of(pipe: int, whom: int, what: signal.Signals) -> None:
    """Make the kernel send this signal to a process (or group, if negative) when the pipe has no writer any more."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, whom)
    fcntl.fcntl(pipe, fcntl.F_SETSIG, what)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _load_graphics_driver() -> None:
    # If nothing has used the driver since boot, CUDA would run this setuid program to load it. A server with private
    # memory can no longer gain the rights for that (private_memory.py), so the guard runs it first.
    if os.path.exists(DRIVER_LOADER) and not os.path.exists(DRIVER):  # noqa: PTH110
        os.spawnv(os.P_WAIT, DRIVER_LOADER, [DRIVER_LOADER, "-c", "0", "-u"])


def _spawn(command: list[str], libc: ctypes.CDLL) -> int:
    guard = os.getpid()
    # Only the guard holds the writing end, so the pipe ends with it. Only the server's processes have the other end.
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
        if os.getppid() == guard:  # otherwise the guard died before the lines above
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
    """Wait until the server ends, and return its status; or until there is a reason to stop it, and return None."""
    poll = select.poll()
    for descriptor in (0, wakeup, *([watch.fileno()] if watch else [])):
        poll.register(descriptor, select.POLLIN)
    while True:
        if watch:
            watch.look()
        # A process that the parent forked may hold the lifeline open after the parent died. So check the parent too.
        ready = [descriptor for descriptor, _ in poll.poll(1000)]
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
    except OSError:  # not a file: wait for the whole grace
        return False


def _reap(server: int) -> int | None:
    """Take the status of every child that has ended. Return the server's status if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == server:
                found = os.waitstatus_to_exitcode(ended[1])
    return found


def _end_group(server: int) -> None:
    """End the server's Python processes. Without this, they would notice its death a second later."""
    with suppress(ProcessLookupError):
        os.killpg(server, signal.SIGKILL)
    deadline = time.monotonic() + GROUP_SECONDS
    with suppress(ChildProcessError):  # no child is left
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(POLL_SECONDS / 10)
