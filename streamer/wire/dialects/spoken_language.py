"""The language that a client of another service names, as the option of a session. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streamer.limits import LANGUAGE
from streamer.text.language_names import same_language
from streamer.wire.errors import bad, shown
from streamer.wire.options import Start, read

# The languages of a model by its own names. Without any, a session has no choice; None: the model was not loaded yet.
Languages = tuple[str, ...] | None

# A client says with these that it does not know the language, or that there are several.
_ANY: Final = (LANGUAGE, "multi")
_ENGLISH: Final = "english"


def session_language(option: str, asked: Iterable[str], languages: Languages) -> str:
    """Return what the session is to be told. `asked`: one language or several, of which one is enough.

    A model without a choice counts as English. WireError names the option if the model cannot recognise the language.
    """
    wanted = [language for language in asked if language.strip()]
    if not wanted:
        return LANGUAGE
    if languages is not None and not languages:
        if any(_is_english(language) or language.lower() == LANGUAGE for language in wanted):
            return LANGUAGE
        why = f"the recogniser knows only English, not {shown(_listed(wanted))}"
        raise bad("bad_option", f"'{option}' must be en: {why}.")
    if any(language.lower() in _ANY for language in wanted):
        return LANGUAGE
    if languages is None:
        # It may have no choice, and then takes no name. If it lacks the language, it refuses the session.
        if any(map(_is_english, wanted)):
            return LANGUAGE
        return str(read(Start, "start", {"language": wanted[0]})["language"])
    for language in wanted:
        if found := same_language("en" if language.lower() == _ENGLISH else language, languages):
            return found
    raise bad("bad_option", f"'{option}' must be one of {', '.join(languages)}, not {shown(_listed(wanted))}.")


def _is_english(language: str) -> bool:
    return language.lower() == _ENGLISH or language.lower().replace("_", "-").partition("-")[0] == "en"


def _listed(wanted: list[str]) -> object:
    return wanted[0] if len(wanted) == 1 else wanted
