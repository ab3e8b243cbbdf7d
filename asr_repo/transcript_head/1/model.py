"""The transcript head as the last step of an ensemble. It gets frames and activity, and gives events."""

# ruff: noqa: E402

from streamer.base.torch_import import import_torch

import_torch()  # before anything here imports torch

from streamer.heads.step_models import TranscriptModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
