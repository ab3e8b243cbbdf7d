"""Tells voices apart. It gets windows of sound and says who speaks in them; what it must remember goes out with it."""

from streamer.engine.adapters.speaker_model import TritonPythonModel as TritonPythonModel
