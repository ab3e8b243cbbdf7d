"""A Triton for the tests of silence: it forgets a sequence soon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.triton.server import TritonServer


@pytest.fixture(scope="module")
def brief_triton(brief_repository: Path) -> Iterator[TritonServer]:
    """A Triton of its own with that limit and few slots."""
    with TritonServer(brief_repository, slots=4) as server:
        yield server
