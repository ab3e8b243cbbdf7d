"""A Triton for the tests of silence: it forgets a sequence after two seconds instead of fifteen."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from streamer.repository import asr_repository
from streamer.triton.server import TritonServer


@pytest.fixture(scope="module")
def brief_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A Triton of its own with that limit."""
    repository = tmp_path_factory.mktemp("repository")
    shutil.copytree(asr_repository(), repository, dirs_exist_ok=True)
    config = repository / "streaming_asr" / "config.pbtxt"
    text, replaced = re.subn(r"(max_sequence_idle_microseconds:) \d+", r"\1 2000000", config.read_text())
    assert replaced == 1
    config.write_text(text)
    with TritonServer(repository, slots=4) as server:
        yield server
