"""The transcript head as the last step of an ensemble: frames and activity in, events out."""

from streamer.adapters.transcript_model import TranscriptModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
