"""Triton: starts the real server on this machine, and connects to one that runs here or elsewhere."""

import re
from typing import Final

MODEL: Final = "streaming_asr"  # the default
# A name must be valid as a folder in the repository and as a part of a URL.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TritonError(Exception):
    """The embedded Triton server or its model repository cannot be used; the message says why."""


def check_name(model: str) -> str:
    """Return the name of a model if it is valid; otherwise ValueError with a sentence for the user."""
    if _NAME.fullmatch(model) is None:
        raise ValueError(
            f"{model[:100]!r} is not a valid name of a model: "
            "use up to 100 letters, digits and . _ -, and begin with a letter or digit"
        )
    return model
