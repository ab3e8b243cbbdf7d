"""Triton: starting the real server on this machine, and the link to one that runs here or elsewhere."""

import re
from typing import Final

MODEL: Final = "streaming_asr"  # unless somebody chose another
# It is a folder in the repository, and a part of addresses.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TritonError(Exception):
    """The embedded Triton server or its model repository cannot be used; the message says why."""


def check_name(model: str) -> str:
    """The name of a model, if it can be one; else ValueError with a sentence for the user."""
    if _NAME.fullmatch(model) is None:
        raise ValueError(f"{model[:100]!r} cannot be the name of a model: that is letters, digits and . _ -")
    return model
