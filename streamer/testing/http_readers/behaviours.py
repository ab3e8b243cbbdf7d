"""What a candidate does in unusual situations: clients that send too much, wrong things, or nothing."""

from __future__ import annotations

import time
from contextlib import suppress

from streamer.testing.attack.frames import BINARY, frame
from streamer.testing.http_readers.candidate_process import CandidateProcess, pushed, upgrade
from streamer.testing.http_readers.candidates import LARGEST

SILENT = 500
MOST = 50_000_000  # bytes that are offered to a reader that should not take them


def told(running: CandidateProcess, data: bytes, quiet_s: float = 0.7) -> bytes:
    """Send data, and return all answers until none comes for `quiet_s`."""
    connection, answer = running.connect(data), b""
    connection.settimeout(quiet_s)
    with suppress(OSError):
        while piece := connection.recv(65_536):
            answer += piece
    connection.close()
    return answer


def status(answer: bytes) -> str:
    """Return the status of an answer, or "cut off"."""
    return answer[9:12].decode() if answer.startswith(b"HTTP/1.1 ") else "cut off"


def upload(running: CandidateProcess, head: str) -> int:
    """Send a head and an endless body. Returns how many bytes of the body are taken."""
    with running.connect(head.encode()) as connection:
        return pushed(connection, bytes(65_536), MOST)


def silent_kept(secure: CandidateProcess) -> int:
    """Return how many connections a port with TLS keeps that never begin their handshake."""
    silent = []
    with suppress(OSError):
        for _ in range(SILENT):
            silent.append(secure.connect())
    time.sleep(0.5)
    kept = 0
    for one in silent:
        one.settimeout(0.001)
        try:
            kept += bool(one.recv(1))
        except TimeoutError:
            kept += 1
        except OSError:
            pass
        one.close()
    return kept


def behaviours(running: CandidateProcess, secure: CandidateProcess) -> dict[str, str]:
    """Examine a candidate, which runs without and with TLS. Returns what it did in each situation."""
    post = "POST {} HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n".format
    get = b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n"
    found = {}
    with running.connect(upgrade("/deaf")) as deaf, running.connect(upgrade("/small")) as small:
        for one in (deaf, small):
            one.recv(4096)
        kept = silent_kept(secure)
        taken = upload(running, post("/deaf", "Content-Length: 1000000000"))
        found["read of a body while the handler does not read, MB"] = f"{taken / 1e6:.1f}"
        taken = pushed(deaf, frame(BINARY, bytes(1000)), MOST)
        found["read of messages while the handler does not read, MB"] = f"{taken / 1e6:.1f}"
        pushed(small, frame(BINARY, bytes(LARGEST)), LARGEST)
        try:
            closed = small.recv(4)[:1] in (b"\x88", b"")
        except OSError as error:
            closed = isinstance(error, ConnectionError)
    found["a message of 1 MiB at a path with a limit of 1000 bytes"] = "refused" if closed else "accepted"
    taken = upload(running, post("/refuse", "Content-Length: 1000000000"))
    found["read of a refused upload, MB"] = f"{taken / 1e6:.1f}"
    consent = told(running, post("/refuse", "Expect: 100-continue\r\nContent-Length: 9").encode())
    found["`Expect`, and a handler that reads no body"] = status(consent)
    found["three requests at once"] = f"{told(running, get * 3).count(b'HTTP/1.1 200')} answers"
    found["`GET //[`"] = status(told(running, b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n"))
    found["a head that is not HTTP"] = status(told(running, b"hello\r\n\r\n"))
    found[f"silent TLS connections kept, of {SILENT}"] = str(kept)
    return found
