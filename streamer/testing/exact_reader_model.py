"""Runs in Triton: the shipped model `reader`, which reads letters from the level of the audio."""

from __future__ import annotations

from typing import Final

from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.reader_model import ReadsSegments
from streamer.engine.adapters.reader_model import TritonPythonModel as ReaderModel
from streamer.testing.exact_reader import ExactReader

SLOWNESS: Final = 0.05


class TritonPythonModel(ReaderModel):
    """An instance. It needs no weights."""

    def load(self, instance: Instance) -> ReadsSegments:
        """Return what reads segments."""
        return ExactReader()


class SlowReaderModel(TritonPythonModel):
    """The same, as slow as a real reader on a busy machine."""

    def load(self, instance: Instance) -> ReadsSegments:
        """Return what reads segments."""
        return ExactReader(SLOWNESS)
