"""The transcript head as the last step of an ensemble. It gets frames and activity, and gives events."""

# ruff: noqa: E402

from streamer.machine.torch_import import import_torch

import_torch()  # before anything here imports torch

from streamer.adapters.transcript_model import TranscriptModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
