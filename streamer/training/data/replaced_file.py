"""Replaces a file only when the new one is complete, and only if the content is different.

So there is never an incomplete file, and the time of a file changes only with its content.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    """Open a temporary file. It replaces `path` when everything is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open(mode) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if not (path.is_file() and filecmp.cmp(partial, path, shallow=False)):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
