"""The encoder as a step of an ensemble. It gets audio, and gives frames, energies and their passage."""

from streamer.heads.step_models import EncoderModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
