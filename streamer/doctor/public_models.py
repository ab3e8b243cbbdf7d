"""The public models of this machine: how many there are, and whether the default can be used. Works without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamer.doctor import packages
from streamer.doctor.finding import FINE, WARNING, WRONG, Finding
from streamer.library import SHIPPED, LibraryError
from streamer.library.model_library import ModelLibrary

_SUBJECT: Final = "public models"


def public_models(library: ModelLibrary | None = None) -> Iterator[Finding]:
    """One line about all of them, or about the default if it cannot be used."""
    library = library or ModelLibrary()
    here, default = library.models(), library.default
    try:
        library.default_folder()
    except LibraryError as error:
        said = str(error).partition(". It is the default;")[0]
        remedy = f"streamer models default {SHIPPED}, or: streamer models get {default}"
        # The light client cannot load any model, so for it nothing is wrong.
        state = WARNING if packages.is_light() else WRONG
        yield Finding(_SUBJECT, state, f"the default does not work: {said}", remedy)
        return
    usual = "the shipped model is the default" if default == SHIPPED else f"{default} is the default"
    listed = f"{len(here)} in {library.folder}: {', '.join(here)}" if here else "none is here"
    begun = [name for name in library.begun() if name not in here]
    if begun:
        names = ", ".join(begun)
        yield Finding(_SUBJECT, WARNING, f"{names} was not fetched to its end", f"streamer models get {begun[0]}")
    yield Finding(_SUBJECT, FINE, f"{listed}; {usual}")
