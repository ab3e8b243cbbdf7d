"""The exact model in a real Triton."""

from __future__ import annotations

import re

from streamer.bridge.triton.server import TritonServer
from tests.triton_processes import mapped


def test_it_needs_no_torch(exact_triton: TritonServer) -> None:
    """Its process has no torch in its memory, so that tests start it quickly."""
    assert mapped(exact_triton, "libtorch") == []
    assert mapped(exact_triton, "onnxruntime") != []


def test_the_load_is_told_by_part(exact_triton: TritonServer) -> None:
    """Its process says in the log of Triton how long each part of its load took, and the server finds that there."""
    (line,) = exact_triton.loads()
    assert re.fullmatch(r"streaming_asr_0_0 took [\d.]+ s to load: Python and libraries [\d.]+, rest [\d.]+", line)
