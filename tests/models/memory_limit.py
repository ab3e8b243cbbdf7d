"""A limit for the memory that reading a hostile folder takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Python's own objects for a field of two bytes take two hundred: what matters is that their number has a limit.
MOST_BYTES, FACTOR = 64 << 20, 24


@contextmanager
def little_memory(folder: Path) -> Iterator[None]:
    """Fail if this takes more memory than a small factor of the folder's size."""
    size = sum(path.stat().st_blocks * 512 for path in folder.iterdir())  # on the disk, without holes
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES + FACTOR * size
    finally:
        tracemalloc.stop()
