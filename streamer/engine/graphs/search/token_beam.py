"""What the beam searches of public models have in common: the likeliest sequences of tokens of each slot.

A hypothesis is a sequence of tokens. Those that all hypotheses of a slot share, in the same frames, are settled: no
later frame can change them. They are kept once, so a hypothesis has only the tokens after them.
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
"""Natural log, for each token of a hotword of weight 1: what sherpa-onnx gives by default."""


@dataclass
class TokenHypothesis:
    """A sequence of tokens after the settled ones. `score` is the natural log of its probability, with its bonuses."""

    score: float = 0.0
    tokens: tuple[Token, ...] = ()
    numbers: tuple[int, ...] = ()  # of the tokens: hypotheses with the same ones are merged
    hotword: int = ROOT  # the state of the hotwords


H = TypeVar("H", bound=TokenHypothesis)


@dataclass
class TokenBeam(Generic[H]):
    """The hypotheses of one slot in the running segment, likeliest first, and how many frames were read."""

    hypotheses: list[H]
    frame: int = 0
    settled: list[Token] = field(default_factory=list)
    common: int = 0  # the tokens that all hypotheses share: the settled ones, and one whose end may still change
    words: tuple[HypothesisWord, ...] = ()  # of the best hypothesis
    stable: int = 0  # how many of them no later frame can change
    _spelled: object = None  # what these words were made of
    _counted: int = 0  # the common tokens from which the stable words were counted

    def tokens(self, hypothesis: H) -> list[Token]:
        """All tokens of a hypothesis."""
        return [*self.settled, *hypothesis.tokens]

    def settle(self) -> None:
        """Keep what all hypotheses share only once. The last token remains open, because it may continue."""
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
        """Find the words of the best hypothesis, if anything has changed."""
        spelled = len(self.settled), self.common, best.tokens
        if spelled != self._spelled:
            tokens, self._spelled = self.tokens(best), spelled
            self.words = tuple(text.words(tokens))
            if self.common != self._counted:
                self._counted = self.common
                # The last of the common words may still grow.
                self.stable = max(0, len(text.words(tokens[: self.common])) - 1)


class TokenBeamSearch(ABC, Generic[H]):
    """A Search over sequences of tokens, with hotwords. Subclasses read the frames."""

    def __init__(self, tokens: Sequence[str], phrases: PhraseTokens, slots: int) -> None:
        self._text, self._phrases = TokenText(tokens), phrases
        self._beams = [TokenBeam([self._first()]) for _ in range(slots)]
        self._hotwords: list[HotwordAutomaton | None] = [None] * slots
        self._settle_frames = [0] * slots

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Set the options of the next stream in this slot. ValueError for a hotword that cannot be used."""
        self.release(slot)
        self._settle_frames[slot] = settle_frames
        found: dict[tuple[int, ...], float] = {}
        for hotword in hotwords:
            yield
            numbers, bonus = self._numbers(hotword), HOTWORD_BONUS * hotword.weight
            if bonus > 0:
                found[numbers] = max(found.get(numbers, 0.0), bonus)
        if found:
            yield
            self._hotwords[slot] = HotwordAutomaton(found.items())

    def release(self, slot: int) -> None:
        """Forget the hotwords of the stream in this slot, which has ended."""
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
        """The hypotheses of these slots if the segment ended here, in the same order. Changes no state."""
        return [Hypothesis(beam.words, beam.stable) for beam in (self._beams[slot] for slot in slots)]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Up to `number` different texts of this slot, first that of `finish`, then by their probabilities."""
        beam = self._beams[slot]
        best, most = self._best(beam), max(one.score for one in beam.hypotheses)
        total = sum(math.exp(one.score - most) for one in beam.hypotheses)
        found: dict[tuple[str, ...], LikelyWords] = {}
        for one in sorted(beam.hypotheses, key=lambda one: (one is not best, -one.score)):
            words = beam.words if one is best else tuple(self._text.words(beam.tokens(one)))
            said = tuple(word.text for word in words)
            first, probability = found.get(said, (words, 0.0))
            found[said] = first, probability + math.exp(one.score - most) / total
        ahead, *others = found.values()
        return [ahead, *sorted(others, key=lambda one: -one[1])][:number]

    def tokens(self, slot: int) -> list[Token]:
        """The tokens of the best hypothesis of the running segment."""
        beam = self._beams[slot]
        return beam.tokens(self._best(beam))

    def _numbers(self, hotword: Hotword) -> tuple[int, ...]:
        """The tokens of a hotword: as it is written, or as it is spoken if the model has no tokens for that."""
        if hotword.written:
            try:
                return self._phrases.of(hotword.written)
            except ValueError:
                pass  # a model that was trained on spoken words has no figures
        return self._phrases.of(hotword.text)

    def _drop(self, beam: TokenBeam[H], until: int) -> None:
        """Drop the hypotheses that disagree with the best one in words that ended before this frame.

        A word is over where the next one begins, so that is in question as well.
        """
        best = self._best(beam)
        beam.spell(best, self._text)
        after = [word.start for before, word in pairwise(beam.words) if before.end <= until]
        if after:
            kept = [token for token in best.tokens if token.frame <= after[-1]]
            beam.hypotheses = [
                one for one in beam.hypotheses if len(one.tokens) >= len(kept) and all(map(_same, kept, one.tokens))
            ]

    @abstractmethod
    def _first(self) -> H:
        """The only hypothesis at the beginning of a segment."""

    @abstractmethod
    def _best(self, beam: TokenBeam[H]) -> H:
        """The hypothesis whose words are shown."""

    @abstractmethod
    def _read(self, slots: Sequence[int], beams: Sequence[TokenBeam[H]], emissions: Emissions) -> None:
        """Read the next frames of these slots into their beams."""


def _same(one: Token, other: Token) -> bool:
    """Whether both are the same token in the same frame. Their ends may differ."""
    return one.number == other.number and one.frame == other.frame


def added(one: float, other: float) -> float:
    """The logarithm of the sum of what two logarithms stand for."""
    high, low = max(one, other), min(one, other)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
