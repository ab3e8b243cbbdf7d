"""The public models of this machine: which ones are known, and how they are fetched, checked and kept."""

from __future__ import annotations

import errno
from typing import Final, Protocol

SHIPPED: Final = "shipped"  # in place of a name: the model that comes with Streamer
LIBRARY: Final = "library"  # in place of a name: all models of this machine
FULL: Final = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class LibraryError(Exception):
    """A model cannot be fetched, kept or used. The message is a sentence for the user, without its full stop."""


class NoSpaceError(LibraryError):
    """The disk is full. The fetched bytes are kept, because the same command may succeed later."""


class Observer(Protocol):
    """Receives the progress of fetching and unpacking, and messages about it."""

    def progress(self, what: str, done: int, whole: int | None) -> None:
        """Show that `done` of `whole` bytes are done; `whole` is None if it is not known."""

    def say(self, sentence: str) -> None:
        """Print a sentence for the user."""
