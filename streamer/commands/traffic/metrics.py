"""The sizes of the model's batches, from the metrics of Triton: at its socket, or at an address."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from streamer.commands.traffic.results import Batches

LIMIT_S: Final = 5.0
MOST_BYTES: Final = 8 << 20
PORT: Final = 8002  # where a Triton gives its metrics, unless another port was chosen
_SAMPLE: Final = re.compile(r"^streamer_(batches_total|batched_requests_total|batch_size_bucket)\{([^}]*)\} (\S+)$")
_BOUND: Final = re.compile(r'le="([^"]+)"')
_SHARE: Final = 0.95


@dataclass(frozen=True)
class BatchCounts:
    """The batches so far: how many, the requests in them, and how many were at most this large."""

    batches: float = 0.0
    requests: float = 0.0
    at_most: Mapping[float, float] = field(default_factory=dict)


def batch_counts(address: str) -> BatchCounts | None:
    """Ask a Triton for its batches so far; None if it does not answer.

    `address`: the path of a socket, host:port, or a URL.
    """
    try:
        with _connection(address) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = b""
            while len(answer) < MOST_BYTES and (data := connection.recv(65536)):
                answer += data
    except OSError:
        return None
    return read_batch_counts(answer.decode(errors="replace"))


def read_batch_counts(text: str) -> BatchCounts:
    """Read an exposition. The counts of all instances and models are added."""
    batches = requests = 0.0
    at_most: Counter[float] = Counter()
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if match is None:
            continue
        name, labels, value = match[1], match[2], float(match[3])
        if name == "batches_total":
            batches += value
        elif name == "batched_requests_total":
            requests += value
        elif bound := _BOUND.search(labels):
            at_most[float(bound[1])] += value  # type: ignore[assignment]
    return BatchCounts(batches, requests, dict(at_most))


def batches_between(before: BatchCounts | None, after: BatchCounts | None) -> Batches | None:
    """Return the batches between two moments; None if nobody told, or there were none."""
    if before is None or after is None or after.batches <= before.batches:
        return None
    number, requests = after.batches - before.batches, after.requests - before.requests
    grown = sorted((bound, count - before.at_most.get(bound, 0.0)) for bound, count in after.at_most.items())
    p95 = next((bound for bound, count in grown if count >= _SHARE * number), None)
    return Batches(number, requests, None if p95 == float("inf") else p95)


def _connection(address: str) -> socket.socket:
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(LIMIT_S)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        return connection
    parts = urlsplit(address if "://" in address else f"http://{address}")
    return socket.create_connection((parts.hostname or "localhost", parts.port or PORT), LIMIT_S)
