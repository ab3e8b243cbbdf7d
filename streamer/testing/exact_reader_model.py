"""Runs in Triton: the shipped model `reader`, which reads letters from the level of the audio."""

from __future__ import annotations

from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.reader_model import ReadsSegments
from streamer.engine.adapters.reader_model import TritonPythonModel as ReaderModel
from streamer.testing.exact_reader import ExactReader


class TritonPythonModel(ReaderModel):
    """An instance. It needs no weights."""

    def load(self, instance: Instance) -> ReadsSegments:
        """Return what reads segments."""
        return ExactReader()
