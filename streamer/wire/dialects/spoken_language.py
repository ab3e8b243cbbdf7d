"""Turns the language that a client of another service names into the option of a session. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streamer.limits import LANGUAGE
from streamer.text.language_names import same_language
from streamer.wire.errors import bad, quote
from streamer.wire.options import Start, read

# The languages of a model, by its own names. Empty: a session cannot choose one. None: the model is not loaded yet.
Languages = tuple[str, ...] | None

# With these names a client says that it does not know the language, or that there are several.
_ANY: Final = (LANGUAGE, "multi")
_ENGLISH: Final = "english"


def session_language(option: str, requested: Iterable[str], languages: Languages) -> str:
    """Return the language for the session: the first of the requested ones that the model has.

    A model without a choice counts as English. Raise WireError, which names the option, if the model has none of them.
    """
    names = [language for language in requested if language.strip()]
    if not names:
        return LANGUAGE
    if languages is not None and not languages:
        if any(_is_english(language) or language.lower() == LANGUAGE for language in names):
            return LANGUAGE
        why = f"the recogniser knows only English, not {quote(_one_or_list(names))}"
        raise bad("bad_option", f"'{option}' must be en: {why}.")
    if any(language.lower() in _ANY for language in names):
        return LANGUAGE
    if languages is None:
        # The model may have no choice, and then takes no name. If it lacks the language, it refuses the session later.
        if any(map(_is_english, names)):
            return LANGUAGE
        return str(read(Start, "start", {"language": names[0]})["language"])
    for language in names:
        if match := same_language("en" if language.lower() == _ENGLISH else language, languages):
            return match
    raise bad("bad_option", f"'{option}' must be one of {', '.join(languages)}, not {quote(_one_or_list(names))}.")


def _is_english(language: str) -> bool:
    return language.lower() == _ENGLISH or language.lower().replace("_", "-").partition("-")[0] == "en"


def _one_or_list(names: list[str]) -> object:
    return names[0] if len(names) == 1 else names
