"""What all tests share: one real Triton with the shipped model, and one service in front of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Tests run small computations, often beside a server: one thread each is the fastest. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from streamer.repository import asr_repository
from streamer.triton.server import TritonServer


@pytest.fixture(scope="session")
def triton() -> Iterator[TritonServer]:
    """The embedded Triton with `streaming_asr`."""
    with TritonServer(asr_repository()) as server:
        yield server
