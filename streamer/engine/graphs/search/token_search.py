"""The interface of a search for public models."""

from __future__ import annotations

from typing import Protocol

from streamer.engine.graphs.token_text import Token
from streamer.engine.search.search import Search


class TokenSearch(Search, Protocol):
    """A Search that finds tokens and makes words of them."""

    def tokens(self, slot: int) -> list[Token]:
        """Return the likeliest tokens of the running segment."""
