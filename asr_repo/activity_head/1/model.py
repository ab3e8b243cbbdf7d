"""The activity head as a step of an ensemble. It gets energies, and gives the probability, start and end of speech."""

# ruff: noqa: E402

from streamer.base.torch_import import import_torch

import_torch()  # before anything here imports torch

from streamer.heads.step_models import ActivityModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
