"""The common part of the beam searches of public models: the likeliest sequences of tokens of each slot.

A hypothesis is a sequence of tokens. The tokens that all hypotheses of a slot share, in the same frames, are settled:
no later frame can change them. They are stored once, and each hypothesis has only the tokens after them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

from streamer.engine.graphs.hotwords.automaton import ROOT, HotwordAutomaton
from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.engine.graphs.token_text import Token, TokenText
from streamer.engine.models.streaming_model import Emissions
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.work.parts import Work

HOTWORD_BONUS = 1.5
"""The bonus for each token of a hotword of weight 1, as a natural log. It is the default of sherpa-onnx."""


@dataclass
class TokenHypothesis:
    """The tokens of a hypothesis after the settled ones. `score` is the natural log of its probability and bonuses."""

    score: float = 0.0
    tokens: tuple[Token, ...] = ()
    numbers: tuple[int, ...] = ()  # the numbers of these tokens; hypotheses with the same numbers are merged
    hotword: int = ROOT  # the state of the automaton of the hotwords


H = TypeVar("H", bound=TokenHypothesis)


@dataclass
class TokenBeam(Generic[H]):
    """The hypotheses of one slot in the running segment, the likeliest first, and the number of frames so far."""

    hypotheses: list[H]
    frame: int = 0
    settled: list[Token] = field(default_factory=list)
    common: int = 0  # how many tokens all hypotheses share: the settled ones, and one whose end may still change
    words: tuple[HypothesisWord, ...] = ()  # of the best hypothesis
    stable: int = 0  # how many of these words no later frame can change
    _spelled: object = None  # the tokens from which these words were made
    _counted: int = 0  # the common tokens from which the stable words were counted

    def tokens(self, hypothesis: H) -> list[Token]:
        """Return all tokens of a hypothesis."""
        return [*self.settled, *hypothesis.tokens]

    def settle(self) -> None:
        """Move the tokens that all hypotheses share to the settled ones. The last stays, because its end may change."""
        first = self.hypotheses[0].tokens
        shared = min(len(one.tokens) for one in self.hypotheses)
        for one in self.hypotheses[1:]:
            shared = next((at for at in range(shared) if not _same(first[at], one.tokens[at])), shared)
        self.common = len(self.settled) + shared
        if shared > 1:
            self.settled += first[: shared - 1]
            for one in self.hypotheses:
                one.tokens, one.numbers = one.tokens[shared - 1 :], one.numbers[shared - 1 :]

    def spell(self, best: H, text: TokenText) -> None:
        """Find the words of the best hypothesis, if its tokens have changed."""
        key = len(self.settled), self.common, best.tokens
        if key != self._spelled:
            tokens, self._spelled = self.tokens(best), key
            self.words = tuple(text.words(tokens))
            if self.common != self._counted:
                self._counted = self.common
                # The last of the common words may still grow.
                self.stable = max(0, len(text.words(tokens[: self.common])) - 1)


class TokenBeamSearch(ABC, Generic[H]):
    """A Search over sequences of tokens, with hotwords. Its subclasses read the frames."""

    def __init__(self, tokens: Sequence[str], phrases: PhraseTokens, slots: int) -> None:
        self._text, self._phrases = TokenText(tokens), phrases
        self._beams = [TokenBeam([self._first()]) for _ in range(slots)]
        self._hotwords: list[HotwordAutomaton | None] = [None] * slots
        self._settle_frames = [0] * slots

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Prepare this slot for its next stream. ValueError for a hotword that cannot be used."""
        self.release(slot)
        self._settle_frames[slot] = settle_frames
        bonuses: dict[tuple[int, ...], float] = {}
        for hotword in hotwords:
            yield
            numbers, bonus = self._numbers(hotword), HOTWORD_BONUS * hotword.weight
            if bonus > 0:
                bonuses[numbers] = max(bonuses.get(numbers, 0.0), bonus)
        if bonuses:
            yield
            self._hotwords[slot] = HotwordAutomaton(bonuses.items())

    def release(self, slot: int) -> None:
        """Drop the hotwords of the stream in this slot, which has ended."""
        self._hotwords[slot] = None
        self._settle_frames[slot] = 0

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._beams[slot] = TokenBeam([self._first()])

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        self._read(slots, [self._beams[slot] for slot in slots], emissions)
        for slot in slots:
            beam = self._beams[slot]
            if self._settle_frames[slot]:
                self._drop(beam, beam.frame - self._settle_frames[slot])
            beam.settle()
            beam.spell(self._best(beam), self._text)
        return self.finish(slots)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order. Change no state."""
        return [Hypothesis(beam.words, beam.stable) for beam in (self._beams[slot] for slot in slots)]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return up to `number` different texts of this slot: first that of `finish`, then by their probabilities."""
        beam = self._beams[slot]
        best, most = self._best(beam), max(one.score for one in beam.hypotheses)
        total = sum(math.exp(one.score - most) for one in beam.hypotheses)
        texts: dict[tuple[str, ...], LikelyWords] = {}
        for one in sorted(beam.hypotheses, key=lambda one: (one is not best, -one.score)):
            words = beam.words if one is best else tuple(self._text.words(beam.tokens(one)))
            text = tuple(word.text for word in words)
            first, probability = texts.get(text, (words, 0.0))
            texts[text] = first, probability + math.exp(one.score - most) / total
        ahead, *others = texts.values()
        return [ahead, *sorted(others, key=lambda one: -one[1])][:number]

    def tokens(self, slot: int) -> list[Token]:
        """Return the tokens of the best hypothesis of the running segment."""
        beam = self._beams[slot]
        return beam.tokens(self._best(beam))

    def _numbers(self, hotword: Hotword) -> tuple[int, ...]:
        """Return the tokens of a hotword: as it is written, or as it is spoken if the model has no tokens for that."""
        if hotword.written:
            try:
                return self._phrases.of(hotword.written)
            except ValueError:
                pass  # a model that was trained on spoken words has no tokens for figures
        return self._phrases.of(hotword.text)

    def _drop(self, beam: TokenBeam[H], until: int) -> None:
        """Drop the hypotheses that differ from the best one in words that ended before this frame.

        A word ends where the next one begins, so the first token of the next word is compared as well.
        """
        best = self._best(beam)
        beam.spell(best, self._text)
        after = [word.start for before, word in pairwise(beam.words) if before.end <= until]
        if after:
            agreed = [token for token in best.tokens if token.frame <= after[-1]]
            beam.hypotheses = [
                one for one in beam.hypotheses if len(one.tokens) >= len(agreed) and all(map(_same, agreed, one.tokens))
            ]

    @abstractmethod
    def _first(self) -> H:
        """Return the only hypothesis at the beginning of a segment."""

    @abstractmethod
    def _best(self, beam: TokenBeam[H]) -> H:
        """Return the hypothesis whose words are shown."""

    @abstractmethod
    def _read(self, slots: Sequence[int], beams: Sequence[TokenBeam[H]], emissions: Emissions) -> None:
        """Read the next frames of these slots into their beams."""


def _same(one: Token, other: Token) -> bool:
    """Return whether both are the same token in the same frame. Their ends may differ."""
    return one.number == other.number and one.frame == other.frame


def log_sum(one: float, other: float) -> float:
    """Return the logarithm of the sum of two numbers, from their logarithms."""
    high, low = max(one, other), min(one, other)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
