"""The service under attack: with keys and an embedded Triton, a separate port with TLS, and figures of memory."""

from __future__ import annotations

import asyncio
import random
import re
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from streamer.base.limits import READER
from streamer.bridge.access.keys import make_key
from streamer.commands.traffic.processes import memory_mb
from workshop.attack import tls_port
from workshop.attack.attack import Target
from workshop.soak.service_under_test import ServiceUnderTest, with_webhooks

# Attackers can open more connections than this, but it is enough for the other clients.
DESCRIPTORS = 450
OPEN_S = 3.0  # the limit for TLS and a request; the limit for `start` is that of the soak
PER_KEY = 24
SLOTS = 40
TOKEN = "0123456789abcdef0123456789abcdef"  # of an account whose calls the attackers cannot sign
SAMPLE_EVERY_S = 1.0
ACCEPT_FAILED = "connections cannot be accepted"


class AttackedService:
    """A context manager: entered when everything is ready, left when all processes have ended."""

    def __init__(self, repository: Path, folder: Path, seed: int) -> None:
        """`folder` is for keys, certificates and logs."""
        self._folder = folder
        self.key = ""  # the key of the bystanders
        self.target = Target("127.0.0.1", 0, "")
        self.memory: dict[str, list[tuple[float, float]]] = {}
        good, hostile = make_key("good"), make_key("hostile")
        (folder / "keys").write_text(f"{good.line}\n{hostile.line}\n")
        self.key, self.target.hostile_key, self.target.other_key = good.secret, hostile.secret, good.secret
        access = ("--keys", folder / "keys", "--open-metrics", "--fetch", "public")
        limits = ("--per-key", PER_KEY, "--handshake-limit", OPEN_S)
        (folder / "tokens").write_text(f"hostile:{TOKEN}\n")
        calls = ("--twilio-tokens", folder / "tokens", *with_webhooks(folder))
        settings = (*access, *limits, "--grpc-port", 0, *calls)
        rng = random.Random(f"{seed} service")
        self.service = ServiceUnderTest(
            repository, folder, tritons=0, slots=SLOTS, rng=rng, settings=settings, reader=repository / READER
        )
        self._tls: subprocess.Popen[str] | None = None
        self._sampling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AttackedService:
        try:
            await self.service.__aenter__()
            resource.prlimit(self.service.bridge, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
            self._tls = await asyncio.to_thread(self._start_tls)
        except BaseException:
            await self.__aexit__()
            raise
        [triton] = self.service.tritons
        target = self.target
        target.port = int(urlsplit(self.service.url).port or 0)
        target.grpc_port = self.service.grpc_port
        target.model_processes, target.triton = lambda: triton.stubs, lambda: triton.pid
        target.reader_processes = lambda: triton.readers
        target.bridge = lambda: self.service.bridge if self.service.alive else None
        self._sampling = asyncio.create_task(self._sample())
        return self

    async def __aexit__(self, *details: object) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)
        if self._tls is not None:
            self._tls.terminate()
            self._tls.wait()
            assert self._tls.stdout is not None
            self._tls.stdout.close()
        await self.service.__aexit__()

    @property
    def alive(self) -> bool:
        """Whether both processes run."""
        return self.service.alive and self._tls is not None and self._tls.poll() is None

    def figures(self, since: float, until: float) -> dict[str, list[float]]:
        """Return the memory of each process: before `since`, the most until `until`, and the least afterwards."""
        by_process = {}
        for name, samples in self.memory.items():
            before = [memory for at, memory in samples if at <= since]
            between = [memory for at, memory in samples if since < at <= until]
            after = [memory for at, memory in samples if at > until]
            if before and between and after:
                by_process[name] = [before[-1], max(between), min(after)]
        return by_process

    def log(self) -> list[str]:
        """Return the log lines of both processes."""
        return self.service.log.read_text(errors="replace").splitlines() + self._tls_log.read_text().splitlines()

    def complaints(self, minutes: float) -> list[str]:
        """Return a sentence for each line in the logs that should not be there."""
        lines = self.log()
        unaccepted = sum(ACCEPT_FAILED in line for line in lines)
        sentences = [f"in {minutes:.1f} min the log says {unaccepted} times that {ACCEPT_FAILED}"] * (
            unaccepted > minutes + 2
        )
        for line in lines:
            if re.search(r"Z error |Traceback|never retrieved|never awaited", line) and ACCEPT_FAILED not in line:
                sentences.append(f"the service's log: {line[:300]}")
        return sentences

    @property
    def _tls_log(self) -> Path:
        return self._folder / "tls.log"

    def _start_tls(self) -> subprocess.Popen[str]:
        chain, key = self._folder / "chain.pem", self._folder / "key.pem"
        kind = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        request = ("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-newkey", *kind)
        subprocess.run([*request, "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True)
        with self._tls_log.open("w") as log:
            command = [sys.executable, "-m", tls_port.__name__, str(chain), str(key)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        self.target.tls_port = int(process.stdout.readline())
        return process

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            with suppress(OSError):
                self._note("bridge", memory_mb(self.service.bridge))
                if self._tls is not None:
                    self._note("TLS port", memory_mb(self._tls.pid))

    def _note(self, name: str, memory: float) -> None:
        self.memory.setdefault(name, []).append((time.monotonic(), memory))
