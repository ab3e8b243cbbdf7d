"""The activity head as a step of an ensemble: energies in; probability, start and end of speech out."""

from streamer.adapters.activity_model import ActivityModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
