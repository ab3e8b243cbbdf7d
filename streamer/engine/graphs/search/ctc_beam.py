"""The prefix beam search for public models with CTC. It adds up the probabilities of all paths of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.hotwords.automaton import HotwordAutomaton
from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.engine.graphs.search.token_beam import TokenBeam, TokenBeamSearch, TokenHypothesis, log_sum
from streamer.engine.graphs.token_text import Token
from streamer.engine.models.streaming_model import Emissions

WIDTH = 8  # the most hypotheses of a slot
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


_Beam = TokenBeam[CtcHypothesis]


class CtcBeamSearch(TokenBeamSearch[CtcHypothesis]):
    """Reads frames of log-probabilities of tokens."""

    def __init__(
        self,
        tokens: Sequence[str],
        blank: int,
        phrases: PhraseTokens,
        slots: int,
        width: int = WIDTH,
        growth: int = GROWTH,
        reach: float = REACH,
    ) -> None:
        super().__init__(tokens, phrases, slots)
        self._blank, self._width, self._reach = blank, width, reach
        self._growth = min(growth + 1, len(tokens))  # the blank may be among them

    def _first(self) -> CtcHypothesis:
        return CtcHypothesis()

    def _best(self, beam: _Beam) -> CtcHypothesis:
        return beam.hypotheses[0]

    def _read(self, slots: Sequence[int], beams: Sequence[_Beam], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        likeliest = np.argpartition(-frames, self._growth - 1, axis=-1)[..., : self._growth]
        for row, (slot, beam) in enumerate(zip(slots, beams, strict=True)):
            for frame, numbers in zip(frames[row], np.sort(likeliest[row], axis=-1).tolist(), strict=True):
                log_probs = frame.tolist()
                grown = [number for number in numbers if number != self._blank]
                self._continue(beam, log_probs, grown, self._hotwords[slot])

    def _continue(
        self, beam: _Beam, log_probs: Sequence[float], grown: Sequence[int], hotwords: HotwordAutomaton | None
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
