"""The common part of the greedy searches of public models: a path of tokens for each slot, and its words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from streamer.engine.graphs.token_text import Token, TokenText
from streamer.engine.models.streaming_model import Emissions
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.work.parts import Work


@dataclass
class TokenPath:
    """The tokens of one slot in the running segment, and how many frames were read."""

    frame: int = 0
    tokens: list[Token] = field(default_factory=list)
    words: tuple[HypothesisWord, ...] = ()

    @property
    def newest(self) -> Token | None:
        """The last token so far. It changes whenever the path changes."""
        return self.tokens[-1] if self.tokens else None


class TokenGreedySearch(ABC):
    """A Search that keeps the likeliest tokens. Subclasses read the frames."""

    no_hotwords: ClassVar[str] = "the greedy search does not support hotwords: leave out 'search', or choose 'beam'"

    def __init__(self, tokens: Sequence[str], slots: int) -> None:
        self._text = TokenText(tokens)
        self._paths = [TokenPath() for _ in range(slots)]

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Refuse hotwords, which a greedy search cannot prefer. Its whole words never change, so all are settled."""
        yield from ()
        if hotwords:
            raise ValueError(self.no_hotwords)

    def release(self, slot: int) -> None:
        """Do nothing. The tokens of a stream are dropped when its slot is reset for the next stream."""
        return

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._paths[slot] = TokenPath()

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        paths = [self._paths[slot] for slot in slots]
        before = [path.newest for path in paths]
        self._read(slots, paths, emissions)
        for path, newest in zip(paths, before, strict=True):
            if path.newest != newest:
                path.words = tuple(self._text.words(path.tokens))
        return self.finish(slots)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order. Changes no state."""
        # A greedy path only grows at its end, so all words except for the last one are stable.
        by_slot = (self._paths[slot].words for slot in slots)
        return [Hypothesis(words, stable=max(0, len(words) - 1)) for words in by_slot]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return the only path, with the probability 1."""
        return [(self._paths[slot].words, 1.0)][:number]

    def tokens(self, slot: int) -> list[Token]:
        """Return the tokens of the running segment."""
        return list(self._paths[slot].tokens)

    @abstractmethod
    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        """Read the next frames of these slots into their paths."""
