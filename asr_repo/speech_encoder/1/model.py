"""The encoder as a step of an ensemble. It gets audio, and gives frames, energies and their passage."""

# ruff: noqa: E402

from streamer.base.torch_import import import_torch

import_torch()  # before anything here imports torch

from streamer.heads.step_models import EncoderModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
