"""Triton: starts the real server on this machine, and connects to one that runs here or elsewhere."""

import re
from pathlib import Path
from typing import Final

MODEL: Final = "streaming_asr"  # the default
# A name must be valid as a folder in the repository and as a part of a URL.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")


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


def model_name(folder: Path) -> str:
    """Return the name in Triton for the model in a folder: that of the folder, as far as it is valid."""
    name = folder.resolve().name
    fit = _UNFIT.sub("_", name).lstrip("._-")[:100]
    return check_name(fit or (name and "model"))
