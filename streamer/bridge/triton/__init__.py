"""Triton: starts the real server on this machine, and connects to one that runs here or elsewhere."""

import re
from pathlib import Path
from typing import Final

MODEL: Final = "streaming_asr"  # the name of the default model
# A name must be valid as the name of a folder in the repository and as a part of a URL.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._-]")


class TritonError(Exception):
    """The embedded Triton server or its model repository cannot be used. The message says why."""


def check_name(model: str) -> str:
    """Return the name of a model if it is valid. Raise ValueError, with a sentence for the user, if not."""
    if _NAME.fullmatch(model) is None:
        rule = "use up to 100 letters, digits and . _ -, and begin with a letter or digit"
        raise ValueError(f"{model[:100]!r} is not a valid name of a model: {rule}")
    return model


def model_name(folder: Path) -> str:
    """Return the name in Triton for the model in a folder: the folder's name without its invalid characters."""
    name = folder.resolve().name
    valid = _INVALID_CHARACTER.sub("_", name).lstrip("._-")[:100]
    return check_name(valid or (name and "model"))
