"""The greedy search for transducers. It takes at most one token a frame, and computes all slots together."""

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
        count = frames.shape[1]
        # Few frames have a token. So all frames are joined at once with the present prediction, and only the frames
        # after a token are joined again. A row of the joiner does not depend on the other rows.
        unread = dict.fromkeys(range(len(slots)), 0)  # the next frame of each row
        while unread:
            pairs = [(row, frame) for row, next_frame in unread.items() for frame in range(next_frame, count)]
            rows = np.array([row for row, _ in pairs])
            logits = self._graphs.join(
                frames[rows, [frame for _, frame in pairs]], self._predictions[[slots[row] for row in rows]]
            )
            emitted: dict[int, int] = {}  # the first frame with a token of each row
            for place, ((row, frame), number) in enumerate(zip(pairs, logits.argmax(-1).tolist(), strict=True)):
                if row in emitted or number in self._graphs.silent:
                    continue
                emitted[row] = frame
                path, slot, at = paths[row], slots[row], paths[row].frame + frame
                path.tokens.append(Token(number, at, at + 1, log_prob(logits[place], number)))
                self._contexts[slot] = (*self._contexts[slot][1:], number)
            if emitted:
                numbers = [slots[row] for row in emitted]
                self._predictions[numbers] = self._graphs.predict([self._contexts[slot] for slot in numbers])
            unread = {row: frame + 1 for row, frame in emitted.items() if frame + 1 < count}
        for path in paths:
            path.frame += count
