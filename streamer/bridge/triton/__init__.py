"""Triton: starts the real server on this machine, and connects to one that runs here or elsewhere."""

from typing import Final

MODEL: Final = "streaming_asr"  # the name of the default model


class TritonError(Exception):
    """The embedded Triton server or its model repository cannot be used. The message says why."""
