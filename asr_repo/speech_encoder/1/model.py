"""The encoder as a step of an ensemble: audio in; frames, energies and the passage that they are out."""

from streamer.adapters.encoder_model import EncoderModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
