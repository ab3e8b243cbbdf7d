"""The greedy search for transducers: at most one token a frame, with the predictor and the joiner over all slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.search.rows import log_prob
from streamer.engine.graphs.search.token_greedy import TokenGreedySearch, TokenPath
from streamer.engine.graphs.search.transducer_graphs import TransducerGraphs
from streamer.engine.graphs.token_text import Token
from streamer.engine.models.streaming_model import Emissions


class TransducerGreedySearch(TokenGreedySearch):
    """Reads frames of an encoder. The predictor is computed again for the slots that emitted a token."""

    def __init__(self, tokens: Sequence[str], graphs: TransducerGraphs, slots: int) -> None:
        super().__init__(tokens, slots)
        self._graphs = graphs
        self._contexts = [graphs.start] * slots
        self._predictions = np.repeat(graphs.started[None], slots, axis=0)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._contexts[slot] = self._graphs.start
        self._predictions[list(slots)] = self._graphs.started

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        for frame in range(frames.shape[1]):
            logits = self._graphs.joined(frames[:, frame], self._predictions[list(slots)])
            best = logits.argmax(-1).tolist()
            emitting = [row for row, number in enumerate(best) if number not in self._graphs.silent]
            for row in emitting:
                path, number, slot = paths[row], best[row], slots[row]
                path.tokens.append(Token(number, path.frame, path.frame + 1, log_prob(logits[row], number)))
                self._contexts[slot] = (*self._contexts[slot][1:], number)
            for path in paths:
                path.frame += 1
            if emitting:
                numbers = [slots[row] for row in emitting]
                self._predictions[numbers] = self._graphs.predicted([self._contexts[slot] for slot in numbers])
