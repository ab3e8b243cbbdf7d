"""The greedy search for transducers of NeMo. It takes up to ten tokens a frame, and computes all slots together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.search.recurrent_graphs import RecurrentGraphs
from streamer.engine.graphs.search.rows import Rows, log_prob
from streamer.engine.graphs.search.token_greedy import TokenGreedySearch, TokenPath
from streamer.engine.graphs.token_text import Token
from streamer.engine.models.streaming_model import Emissions

MOST_IN_A_FRAME: Final = 10
"""The most tokens in a frame, as in sherpa-onnx. A model that emits more is wrong."""


class RecurrentGreedySearch(TokenGreedySearch):
    """Reads frames of an encoder. The predictor reads each token that the search emits."""

    no_hotwords: ClassVar[str] = "this model has only a greedy search, which does not support hotwords"

    def __init__(self, tokens: Sequence[str], graphs: RecurrentGraphs, slots: int) -> None:
        super().__init__(tokens, slots)
        self._graphs = graphs
        self._predictions = np.repeat(graphs.started, slots, axis=0)
        self._memory = [np.repeat(value, slots, axis=1) for value in graphs.fresh]

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        self._predictions[list(slots)] = self._graphs.started
        for memory, value in zip(self._memory, self._graphs.fresh, strict=True):
            memory[:, list(slots)] = value

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        for frame in range(frames.shape[1]):
            rows = list(range(len(slots)))
            for _ in range(MOST_IN_A_FRAME):
                rows = self._emit(rows, slots, paths, frames[:, frame])
                if not rows:
                    break
            for path in paths:
                path.frame += 1

    def _emit(self, rows: list[int], slots: Sequence[int], paths: Sequence[TokenPath], frames: Rows) -> list[int]:
        """Let these rows emit the likeliest token in this frame. Return the rows that did not emit a blank."""
        logits = self._graphs.join(frames[rows], self._predictions[[slots[row] for row in rows]])
        best = logits.argmax(-1).tolist()
        emitting = [place for place, number in enumerate(best) if number != self._graphs.blank]
        if not emitting:
            return []
        for place in emitting:
            path, number = paths[rows[place]], best[place]
            path.tokens.append(Token(number, path.frame, path.frame + 1, log_prob(logits[place], number)))
        numbers = [slots[rows[place]] for place in emitting]
        before = [memory[:, numbers] for memory in self._memory]
        self._predictions[numbers], after = self._graphs.predict([best[place] for place in emitting], before)
        for memory, value in zip(self._memory, after, strict=True):
            memory[:, numbers] = value
        return [rows[place] for place in emitting]
