"""Reads ended segments as a whole. It gets their audio and gives their text."""

from streamer.engine.adapters.reader_model import TritonPythonModel as TritonPythonModel
