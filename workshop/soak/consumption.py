"""What the nodes of a network take while sessions run: processor time, memory, bytes on their links, requests."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from streamer.base.machine import find_process
from workshop.soak.network_under_test import STORE, STORE_PORT, NetworkUnderTest
from workshop.soak.switch import BYTES_TO, PACKETS_TO

ANSWER_S = 2.0
_DONE = b"total_commands_processed:"


class Consumption:
    """Adds up what each kind of node takes. It has to look every few seconds, because processes end."""

    def __init__(self, network: NetworkUnderTest) -> None:
        self._network = network
        self._before: dict[int, float] = {}  # the processor time of a process before the first look
        self._latest: dict[int, float] = {}
        self._kinds: dict[int, str] = {}
        self._requests = 0
        self._done: int | None = None  # requests that the store has answered since its start
        self._packets = dict(network.network.counts())
        self._memory_mb: dict[str, list[float]] = defaultdict(list)
        self._looks = 0
        self._sessions = 0
        self._most = 0

    def look(self, sessions: int) -> None:
        """Look at all processes and at the store. `sessions`: how many run now."""
        for kind, pids in self._pids().items():
            for pid in pids:
                process = find_process(pid)
                if process is not None:
                    self._kinds[pid] = kind
                    self._latest[pid] = process.cpu_s
                    if not self._looks:
                        self._before[pid] = process.cpu_s
        for (kind, _), memory_mb in self._network.processes().items():
            self._memory_mb[kind].append(memory_mb)
        self._looks += 1
        self._sessions += sessions
        self._most = max(self._most, sessions)
        if self._network.stores:
            self._ask_the_store()

    def as_json(self, seconds: float) -> dict[str, object]:
        """Return the sums by kind of node, for a run of this length."""
        cpu_s: dict[str, float] = defaultdict(float)
        for pid, kind in self._kinds.items():
            cpu_s[kind] += self._latest[pid] - self._before.get(pid, 0.0)
        counts = self._network.network.counts()
        moved = {name: number - self._packets.get(name, 0) for name, number in counts.items()}
        return {
            "seconds": round(seconds, 1),
            "sessions": round(self._sessions / max(1, self._looks), 2),  # at a time, on average
            "most_sessions": self._most,
            "cpu_s": {kind: round(taken, 2) for kind, taken in cpu_s.items()},
            "memory_mb": {kind: round(memory_mb, 1) for kind, memory_mb in self._memory().items()},
            "packets": _by_kind(moved, PACKETS_TO),
            "bytes": _by_kind(moved, BYTES_TO),
            "store_requests": self._requests,
        }

    def _memory(self) -> dict[str, float]:
        """Return the mean memory of each bridge, and of each Triton with the process of its model."""
        means = {kind: sum(each) / len(each) for kind, each in self._memory_mb.items()}
        return {"bridge": means["bridge"], "Triton": means["Triton"] + means["model"]}

    def _pids(self) -> Mapping[str, Sequence[int]]:
        network = self._network
        of_tritons = [pid for triton in network.tritons for pid in (triton.pid, *triton.stubs) if pid is not None]
        return {
            "bridge": [bridge.process.pid for bridge in network.bridges if bridge.running],
            "Triton": of_tritons,
            "balancer": network.balancer.pids,
            "store": [pid for store in network.stores for pid in store.pids],
        }

    def _ask_the_store(self) -> None:
        with suppress(OSError, ValueError), socket.create_connection((STORE.format(1), STORE_PORT), ANSWER_S) as link:
            link.settimeout(ANSWER_S)
            link.sendall(b"INFO stats\r\n")
            answer = b""
            while _DONE not in answer or b"\n" not in answer.partition(_DONE)[2]:
                piece = link.recv(1 << 14)
                if not piece:
                    return
                answer += piece
            done = int(answer.partition(_DONE)[2].split()[0])
            if self._done is not None:
                self._requests += max(0, done - self._done - 1) if done >= self._done else done
            self._done = done


def _by_kind(counts: Mapping[str, int], beginning: str) -> dict[str, int]:
    """Return the sums over nodes of a kind, which differ by a number at the end of their names."""
    sums: dict[str, int] = defaultdict(int)
    for name, number in counts.items():
        if name.startswith(beginning):
            sums[name.removeprefix(beginning).rstrip("0123456789")] += number
    return dict(sums)
