"""The common part of the beam searches of public models: the likeliest sequences of tokens of each slot.

A hypothesis is a sequence of tokens. The tokens that all hypotheses of a slot share, in the same frames, are settled:
no later frame can change them. They are stored once, and each hypothesis has only the tokens after them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.greedy import MOST_IN_A_FRAME
from streamer.engine.public.hotwords import ROOT, HotwordAutomaton, PhraseTokens
from streamer.engine.public.token_text import Token, TokenText
from streamer.engine.public.transducers import Prediction, Predictor, Rows, context_of
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.waiting import Work

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


# The prefix beam search for public models with CTC. It adds up the probabilities of all paths of a sequence.

CTC_WIDTH = 8  # the most hypotheses of a slot
GROWTH = 8  # how many of the likeliest tokens may extend a hypothesis in a frame
REACH = 10.0  # a hypothesis whose score is this much worse than the best score is dropped
_NEVER = float("-inf")


@dataclass
class CtcHypothesis(TokenHypothesis):
    """A hypothesis with the log-probabilities of its two kinds of paths."""

    blank: float = 0.0  # of the paths that end with a blank
    other: float = _NEVER  # of the paths that end with the last token
    bonus: float = 0.0  # of hotwords

    def rate(self) -> CtcHypothesis:
        """Compute the score, and return this hypothesis."""
        self.score = log_sum(self.blank, self.other) + self.bonus
        return self


_CtcBeam = TokenBeam[CtcHypothesis]


class CtcBeamSearch(TokenBeamSearch[CtcHypothesis]):
    """Reads frames of log-probabilities of tokens."""

    def __init__(
        self,
        tokens: Sequence[str],
        blank: int,
        phrases: PhraseTokens,
        slots: int,
        width: int = CTC_WIDTH,
        growth: int = GROWTH,
        reach: float = REACH,
    ) -> None:
        super().__init__(tokens, phrases, slots)
        self._blank, self._width, self._reach = blank, width, reach
        self._growth = min(growth + 1, len(tokens))  # the blank may be among them

    def _first(self) -> CtcHypothesis:
        return CtcHypothesis()

    def _best(self, beam: _CtcBeam) -> CtcHypothesis:
        return beam.hypotheses[0]

    def _read(self, slots: Sequence[int], beams: Sequence[_CtcBeam], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        likeliest = np.argpartition(-frames, self._growth - 1, axis=-1)[..., : self._growth]
        for row, (slot, beam) in enumerate(zip(slots, beams, strict=True)):
            for frame, numbers in zip(frames[row], np.sort(likeliest[row], axis=-1).tolist(), strict=True):
                log_probs = frame.tolist()
                grown = [number for number in numbers if number != self._blank]
                self._continue(beam, log_probs, grown, self._hotwords[slot])

    def _continue(
        self, beam: _CtcBeam, log_probs: Sequence[float], grown: Sequence[int], hotwords: HotwordAutomaton | None
    ) -> None:
        """Read a frame. If two paths make the same sequence, the likelier one gives the times."""
        hypotheses = {one.numbers: self._stay(one, log_probs, beam.frame).rate() for one in beam.hypotheses}
        least = max(one.score for one in hypotheses.values()) - self._reach
        for one in beam.hypotheses:
            last = one.numbers[-1] if one.numbers else self._blank
            for number in grown:
                other = (one.blank if number == last else one.score - one.bonus) + log_probs[number]
                if other == _NEVER:
                    continue  # a token can be repeated only after a blank
                numbers = (*one.numbers, number)
                tokens = (*one.tokens, Token(number, beam.frame, beam.frame + 1, log_probs[number]))
                same = hypotheses.get(numbers)
                if same is None:
                    earned, state = (0.0, one.hotword) if hotwords is None else hotwords.step(one.hotword, number)
                    bonus = one.bonus + earned
                    if other + bonus >= least:
                        hypotheses[numbers] = CtcHypothesis(other + bonus, tokens, numbers, state, _NEVER, other, bonus)
                else:
                    if other > log_sum(same.blank, same.other):
                        same.tokens = tokens
                    same.other = log_sum(same.other, other)
                    same.rate()
        best = sorted(hypotheses.values(), key=lambda one: (-one.score, one.numbers))[: self._width]
        beam.hypotheses = [one for one in best if one.score >= best[0].score - self._reach]
        beam.frame += 1

    def _stay(self, one: CtcHypothesis, log_probs: Sequence[float], frame: int) -> CtcHypothesis:
        """Return the same sequence, after another blank or another frame of its last token."""
        blank, other, tokens = one.score - one.bonus + log_probs[self._blank], _NEVER, one.tokens
        if tokens:
            other = one.other + log_probs[one.numbers[-1]]
            if other > blank:
                tokens = (*tokens[:-1], replace(tokens[-1], end=frame + 1))
        return CtcHypothesis(0.0, tokens, one.numbers, one.hotword, blank, other, one.bonus)


# The modified beam search for transducers, as in sherpa-onnx: at most one token a frame; equal sequences are merged.

TRANSDUCER_WIDTH = 4  # the most hypotheses of a slot; the default of sherpa-onnx


@dataclass(kw_only=True)
class TransducerHypothesis(TokenHypothesis):
    """A hypothesis with the prediction after its tokens, or before the last one if the predictor has not read it."""

    prediction: Prediction
    unread: int | None = None


class Candidate(NamedTuple):
    """A token that may follow a hypothesis in a frame. The least candidate is the best."""

    less: float  # the negative score
    place: int  # the place of the hypothesis in the beam, so that of equal scores the better hypothesis wins
    number: int  # the number of the token
    log_prob: float  # of the token


_TransducerBeam = TokenBeam[TransducerHypothesis]


class TransducerBeamSearch(TokenBeamSearch[TransducerHypothesis]):
    """Reads frames of an encoder."""

    def __init__(
        self,
        tokens: Sequence[str],
        graphs: Predictor,
        phrases: PhraseTokens,
        slots: int,
        width: int = TRANSDUCER_WIDTH,
    ) -> None:
        self._graphs, self._width = graphs, width
        super().__init__(tokens, phrases, slots)

    def _first(self) -> TransducerHypothesis:
        return TransducerHypothesis(prediction=self._graphs.first)

    def _best(self, beam: _TransducerBeam) -> TransducerHypothesis:
        # The score per token, so that short hypotheses are not preferred. The start of the context counts as tokens.
        longer = len(context_of(self._graphs.first)) + len(beam.settled)
        return max(beam.hypotheses, key=lambda one: one.score / (longer + len(one.tokens)))

    def _read(self, slots: Sequence[int], beams: Sequence[_TransducerBeam], emissions: Emissions) -> None:
        for frames in np.moveaxis(emissions[FRAMES], 1, 0):
            rows = self._joined(frames, [beam.hypotheses for beam in beams])
            for slot, beam, log_probs in zip(slots, beams, rows, strict=True):
                candidates = _candidates(beam, *self._likeliest(log_probs))
                self._continue(beam, self._chosen(slot, candidates), self._hotwords[slot])
            self._predict(beam.hypotheses for beam in beams)

    def _joined(self, frames: Rows, hypotheses: Sequence[Sequence[TransducerHypothesis]]) -> list[Rows]:
        """Return the log-probabilities of all tokens after each of these hypotheses, which are given for each frame."""
        counts = [len(each) for each in hypotheses]
        predictions = np.stack([one.prediction.row for each in hypotheses for one in each])
        logits = self._graphs.join(frames[np.repeat(np.arange(len(counts)), counts)], predictions)
        highest = logits.max(axis=1, keepdims=True)
        total = highest + np.log(np.exp(logits - highest).sum(axis=1, keepdims=True))
        return np.split(logits - total, np.cumsum(counts)[:-1])

    def _likeliest(self, log_probs: Rows) -> tuple[NDArray[np.int64], Rows]:
        """Return the likeliest tokens of each row, and their log-probabilities. No other token can be chosen.

        There is one more token than a beam has hypotheses, so that the best candidate that is not chosen is among them.
        """
        most = min(self._width + 1, log_probs.shape[1])
        likeliest = np.argpartition(-log_probs, most - 1, axis=1)[:, :most]
        return likeliest, np.take_along_axis(log_probs, likeliest, axis=1)

    def _chosen(self, slot: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the sorted candidates that become hypotheses of this slot."""
        return candidates[: self._width]

    def _continue(self, beam: _TransducerBeam, chosen: Sequence[Candidate], hotwords: HotwordAutomaton | None) -> None:
        """Read a frame: make hypotheses of these candidates. Of equal sequences, the better one gives the times."""
        merged: dict[tuple[int, ...], TransducerHypothesis] = {}
        for candidate in chosen:
            one = self._follow(beam.hypotheses[candidate.place], candidate, beam.frame, hotwords)
            one.score = float(np.float32(one.score))
            same = merged.setdefault(one.numbers, one)
            if same is not one:
                same.score = log_sum(same.score, one.score)
        beam.hypotheses = sorted(merged.values(), key=lambda one: -one.score)
        beam.frame += 1

    def _follow(
        self, before: TransducerHypothesis, by: Candidate, frame: int, hotwords: HotwordAutomaton | None
    ) -> TransducerHypothesis:
        """Return the hypothesis after this candidate."""
        if by.number in self._graphs.silent:
            return replace(before, score=-by.less)
        bonus, state = (0.0, before.hotword) if hotwords is None else hotwords.step(before.hotword, by.number)
        tokens = (*before.tokens, Token(by.number, frame, frame + 1, by.log_prob))
        numbers = (*before.numbers, by.number)
        return TransducerHypothesis(
            bonus - by.less, tokens, numbers, state, prediction=before.prediction, unread=by.number
        )

    def _predict(self, hypotheses: Iterable[Sequence[TransducerHypothesis]]) -> None:
        """Let the predictor read the new tokens of these hypotheses."""
        new = [(one, one.unread) for each in hypotheses for one in each if one.unread is not None]
        if new:
            predictions = self._graphs.read([one.prediction for one, _ in new], [token for _, token in new])
            for (one, _), prediction in zip(new, predictions, strict=True):
                one.prediction, one.unread = prediction, None


def _candidates(beam: _TransducerBeam, likeliest: NDArray[np.int64], log_probs: Rows) -> list[Candidate]:
    scores = np.array([one.score for one in beam.hypotheses], dtype=np.float32)
    totals = -(log_probs + scores[:, None])
    return sorted(
        Candidate(*fields)
        for place, row in enumerate(zip(totals.tolist(), likeliest.tolist(), log_probs.tolist(), strict=True))
        for fields in ((less, place, number, log_prob) for less, number, log_prob in zip(*row, strict=True))
    )


# The modified beam search for transducers of NeMo, as in sherpa-onnx. A hypothesis may take several tokens in a frame.


class Grown(NamedTuple):
    """A hypothesis in the middle of a frame. If it `stays`, it may take another token in the same frame."""

    hypothesis: TransducerHypothesis
    stays: bool


class RecurrentBeamSearch(TransducerBeamSearch):
    """The same with a predictor that has states.

    In each round, every hypothesis that is still in the frame takes a token, or leaves the frame with a blank. Of equal
    sequences, only the likelier way to them counts, as in a greedy search.
    """

    def _best(self, beam: _TransducerBeam) -> TransducerHypothesis:
        return beam.hypotheses[0]

    def _read(self, slots: Sequence[int], beams: Sequence[_TransducerBeam], emissions: Emissions) -> None:
        for frames in np.moveaxis(emissions[FRAMES], 1, 0):
            staying = [beam.hypotheses for beam in beams]
            for beam in beams:
                beam.hypotheses = []
            for taken in range(MOST_IN_A_FRAME + 1):
                if not any(staying):
                    break
                if taken < MOST_IN_A_FRAME:
                    grown = self._grow(slots, beams, frames, staying)
                else:  # they have as many tokens of this frame as they may have
                    grown = [[Grown(one, stays=False) for one in each] for each in staying]
                for place, (slot, beam) in enumerate(zip(slots, beams, strict=True)):
                    if staying[place]:
                        left = [Grown(one, stays=False) for one in beam.hypotheses]
                        kept = self._kept(slot, [*left, *grown[place]])
                        beam.hypotheses = [one.hypothesis for one in kept if not one.stays]
                        staying[place] = [one.hypothesis for one in kept if one.stays]
                self._predict(staying)
            for beam in beams:
                beam.frame += 1

    def _grow(
        self,
        slots: Sequence[int],
        beams: Sequence[_TransducerBeam],
        frames: Rows,
        staying: Sequence[Sequence[TransducerHypothesis]],
    ) -> list[list[Grown]]:
        """Return what becomes of these hypotheses of each beam with another token, or a blank."""
        rows = self._joined(frames, staying)
        return [
            [
                Grown(self._follow(one, by, beam.frame, self._hotwords[slot]), by.number not in self._graphs.silent)
                for one, log_probs in zip(each, own, strict=True)
                for by in self._followers(one, log_probs, self._hotwords[slot])
            ]
            for slot, beam, each, own in zip(slots, beams, staying, rows, strict=True)
        ]

    def _followers(
        self, one: TransducerHypothesis, log_probs: NDArray[np.float32], hotwords: HotwordAutomaton | None
    ) -> Iterator[Candidate]:
        """Yield the tokens that may follow a hypothesis. Those that go on with a hotword count with their bonus."""
        ranks = log_probs
        if hotwords is not None:
            ranks = log_probs.copy()
            for token, bonus in hotwords.continuations(one.hotword).items():
                ranks[token] += np.float32(bonus)
        most = min(self._width, len(ranks))
        for number in np.argpartition(-ranks, most - 1)[:most].tolist():
            log_prob = float(log_probs[number])
            yield Candidate(-(one.score + log_prob), 0, number, log_prob)

    def _kept(self, slot: int, grown: Sequence[Grown]) -> Sequence[Grown]:
        """Return the best of these for this slot, in order, with one for each sequence of tokens."""
        best: dict[tuple[bool, tuple[int, ...]], Grown] = {}
        for one in grown:
            same = best.setdefault((one.stays, one.hypothesis.numbers), one)
            if one.hypothesis.score > same.hypothesis.score:
                best[one.stays, one.hypothesis.numbers] = one
        return sorted(best.values(), key=lambda one: -one.hypothesis.score)[: self._width]
