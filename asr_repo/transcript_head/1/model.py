"""The transcript head as the last step of an ensemble. It gets frames and activity, and gives events."""

from streamer.heads.step_models import TranscriptModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
