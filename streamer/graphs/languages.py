"""The languages of a model that is told which one is spoken, from the metadata that its export writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamer.text.language_names import same_language

AUTO: Final = "auto"
"""The model finds out itself which language is spoken."""
_AUTO_NUMBER: Final = 101  # of models whose metadata does not say it


@dataclass(frozen=True)
class Languages:
    """The languages of which a stream may choose one, by the names that the model has for them.

    `numbers` has the number that the graph takes for each. `usual` is for streams that do not choose.
    """

    numbers: Mapping[str, int]
    usual: int

    def number(self, language: str) -> int | None:
        """The number of this language, in any spelling; None if the model lacks it."""
        if language.strip().lower() == AUTO:
            return self.usual
        name = same_language(language, self.numbers)
        return None if name is None else self.numbers[name]


def languages_of(metadata: Mapping[str, str]) -> Languages:
    """The languages that the metadata has, maybe none. ValueError says what is wrong with it."""
    try:
        found = json.loads(metadata.get("prompt_dictionary", "{}"))
        usual = int(metadata.get("auto_prompt_id", _AUTO_NUMBER))
    except ValueError:
        raise ValueError("has a prompt_dictionary or an auto_prompt_id in its metadata that cannot be read") from None
    if not isinstance(found, dict) or not all(type(number) is int and number >= 0 for number in found.values()):
        raise ValueError("has a prompt_dictionary in its metadata that is not a table of languages and numbers")
    return Languages(found, found.get(AUTO, usual))
