"""The modified beam search for transducers, as in sherpa-onnx: at most one token a frame; equal sequences are merged.

In each frame, one run of the joiner scores all tokens for all hypotheses of all slots, and one run of the predictor
reads the last tokens of the new hypotheses. The numbers are rounded where sherpa-onnx rounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.hotwords.automaton import HotwordAutomaton
from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.engine.graphs.search.rows import Rows
from streamer.engine.graphs.search.token_beam import TokenBeam, TokenBeamSearch, TokenHypothesis, log_sum
from streamer.engine.graphs.search.transducer_graphs import Context, TransducerGraphs
from streamer.engine.graphs.token_text import Token
from streamer.engine.models.streaming_model import Emissions

WIDTH = 4  # the most hypotheses of a slot; the default of sherpa-onnx


@dataclass
class TransducerHypothesis(TokenHypothesis):
    """A hypothesis with its last tokens, and the prediction after them (empty until it is computed)."""

    context: Context = ()
    prediction: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))


class Candidate(NamedTuple):
    """A token that may follow a hypothesis in a frame. The least candidate is the best."""

    less: float  # the negative score
    place: int  # the place of the hypothesis in the beam, so that of equal scores the better hypothesis wins
    number: int  # the number of the token
    log_prob: float  # of the token


_Beam = TokenBeam[TransducerHypothesis]


class TransducerBeamSearch(TokenBeamSearch[TransducerHypothesis]):
    """Reads frames of an encoder."""

    def __init__(
        self, tokens: Sequence[str], graphs: TransducerGraphs, phrases: PhraseTokens, slots: int, width: int = WIDTH
    ) -> None:
        self._graphs, self._width = graphs, width
        super().__init__(tokens, phrases, slots)

    def _first(self) -> TransducerHypothesis:
        return TransducerHypothesis(context=self._graphs.start, prediction=self._graphs.started)

    def _best(self, beam: _Beam) -> TransducerHypothesis:
        # The score per token, so that short hypotheses are not preferred. The start of the context counts as tokens.
        longer = len(self._graphs.start) + len(beam.settled)
        return max(beam.hypotheses, key=lambda one: one.score / (longer + len(one.tokens)))

    def _read(self, slots: Sequence[int], beams: Sequence[_Beam], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        for frame in range(frames.shape[1]):
            counts = [len(beam.hypotheses) for beam in beams]
            rows = np.repeat(np.arange(len(beams)), counts)
            predictions = np.stack([one.prediction for beam in beams for one in beam.hypotheses])
            likeliest, log_probs = self._likeliest(self._graphs.join(frames[rows, frame], predictions))
            at = 0
            for slot, beam, count in zip(slots, beams, counts, strict=True):
                candidates = _candidates(beam, likeliest[at : at + count], log_probs[at : at + count])
                self._continue(beam, self._chosen(slot, candidates), self._hotwords[slot])
                at += count
            self._predict(beams)

    def _likeliest(self, logits: Rows) -> tuple[NDArray[np.int64], Rows]:
        """Return the likeliest tokens of each row, and their log-probabilities. No other token can be chosen.

        There is one more token than a beam has hypotheses, so that the best candidate that is not chosen is among them.
        """
        most = min(self._width + 1, logits.shape[1])
        likeliest = np.argpartition(-logits, most - 1, axis=1)[:, :most]
        highest = logits.max(axis=1, keepdims=True)
        total = highest + np.log(np.exp(logits - highest).sum(axis=1, keepdims=True))
        return likeliest, np.take_along_axis(logits, likeliest, axis=1) - total

    def _chosen(self, slot: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the sorted candidates that become hypotheses of this slot."""
        return candidates[: self._width]

    def _continue(self, beam: _Beam, chosen: Sequence[Candidate], hotwords: HotwordAutomaton | None) -> None:
        """Read a frame: make hypotheses of these candidates. Of equal sequences, the better one gives the times."""
        merged: dict[tuple[int, ...], TransducerHypothesis] = {}
        for candidate in chosen:
            one = self._follow(beam.hypotheses[candidate.place], candidate, beam.frame, hotwords)
            same = merged.setdefault(one.numbers, one)
            if same is not one:
                same.score = log_sum(same.score, one.score)
        beam.hypotheses = sorted(merged.values(), key=lambda one: -one.score)
        beam.frame += 1

    def _follow(
        self, before: TransducerHypothesis, by: Candidate, frame: int, hotwords: HotwordAutomaton | None
    ) -> TransducerHypothesis:
        score = -by.less
        if by.number in self._graphs.silent:
            return TransducerHypothesis(
                score, before.tokens, before.numbers, before.hotword, before.context, before.prediction
            )
        state = before.hotword
        if hotwords is not None:
            bonus, state = hotwords.step(state, by.number)
            score = float(np.float32(score + bonus))
        tokens = (*before.tokens, Token(by.number, frame, frame + 1, by.log_prob))
        return TransducerHypothesis(
            score, tokens, (*before.numbers, by.number), state, (*before.context[1:], by.number)
        )

    def _predict(self, beams: Sequence[_Beam]) -> None:
        """Compute the predictor for the hypotheses with a new token."""
        new = [one for beam in beams for one in beam.hypotheses if not len(one.prediction)]
        if new:
            places = {context: place for place, context in enumerate(dict.fromkeys(one.context for one in new))}
            predictions = self._graphs.predict(list(places))
            for one in new:
                one.prediction = predictions[places[one.context]]


def _candidates(beam: _Beam, likeliest: NDArray[np.int64], log_probs: Rows) -> list[Candidate]:
    scores = np.array([one.score for one in beam.hypotheses], dtype=np.float32)
    totals = -(log_probs + scores[:, None])
    return sorted(
        Candidate(*fields)
        for place, row in enumerate(zip(totals.tolist(), likeliest.tolist(), log_probs.tolist(), strict=True))
        for fields in ((less, place, number, log_prob) for less, number, log_prob in zip(*row, strict=True))
    )
