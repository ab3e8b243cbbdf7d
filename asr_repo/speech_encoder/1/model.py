"""The encoder as a step of an ensemble: audio in; frames, energies and the passage that they are out."""

# ruff: noqa: E402

from streamer.machine.torch_import import import_torch

import_torch()  # before anything here imports torch

from streamer.adapters.encoder_model import EncoderModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
