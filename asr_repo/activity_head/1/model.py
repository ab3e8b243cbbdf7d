"""The activity head as a step of an ensemble. It gets energies, and gives the probability, start and end of speech."""

from streamer.heads.step_models import ActivityModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
