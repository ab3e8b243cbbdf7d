"""The languages of a model that takes the language as an input, from the metadata of the export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamer.text.language_names import same_language

AUTO: Final = "auto"
"""The choice by which the model itself finds out which language is spoken."""
_AUTO_NUMBER: Final = 101  # the number of AUTO if the metadata does not say it


@dataclass(frozen=True)
class Languages:
    """The languages of a model, by its own names. A stream may choose one of them.

    `numbers`: the number that the graph takes for each. `usual`: the number for streams without a choice.
    """

    numbers: Mapping[str, int]
    usual: int

    def number(self, language: str) -> int | None:
        """Return the number of this language, in any spelling; None if the model lacks it."""
        if language.strip().lower() == AUTO:
            return self.usual
        name = same_language(language, self.numbers)
        return None if name is None else self.numbers[name]


def languages_of(metadata: Mapping[str, str]) -> Languages:
    """Return the languages in the metadata; there may be none. Raise ValueError if they cannot be read."""
    try:
        numbers = json.loads(metadata.get("prompt_dictionary", "{}"))
        usual = int(metadata.get("auto_prompt_id", _AUTO_NUMBER))
    except ValueError:
        raise ValueError("has a prompt_dictionary or an auto_prompt_id in its metadata that cannot be read") from None
    if not isinstance(numbers, dict) or not all(type(number) is int and number >= 0 for number in numbers.values()):
        raise ValueError("has a prompt_dictionary in its metadata that is not a table of languages and numbers")
    return Languages(numbers, numbers.get(AUTO, usual))
