"""Names of models, and names of languages such as `de` and `de-DE`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# A name must be valid as the name of a folder in the repository and as a part of a URL.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._-]")


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


def same_language(name: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that means the same language; None if there is none.

    `en_us` means the same as `en-US`. A language without a region means its first region among the names.
    """
    plain = _plain(name)
    by_plain_name = {_plain(each): each for each in sorted(names, reverse=True)}
    regions = (each for key, each in sorted(by_plain_name.items()) if key.startswith(f"{plain}-"))
    return by_plain_name.get(plain, next(regions, None))


def is_english(name: str) -> bool:
    """Return whether this names English, in any region: `en`, `en-US`, `english`."""
    plain = _plain(name)
    return plain == "english" or plain.partition("-")[0] == "en"


def _plain(language: str) -> str:
    return language.strip().replace("_", "-").lower()
