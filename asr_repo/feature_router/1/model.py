"""Hands each head its own copy of what the encoder gives: an output `X_FOR_Y` is the input `X`, for the head Y."""

from streamer.adapters.router_model import RouterModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
