"""Triton: starting the real server on this machine, and the link to one that runs here or elsewhere."""


class TritonError(Exception):
    """The embedded Triton server or its model repository cannot be used; the message says why."""
