"""The predictor and the joiner of a transducer, for as many rows as its searches have at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.search.rows import Rows, never_one
from streamer.engine.graphs.sessions import open_graph
from streamer.graphs.transducer import ContextTransducer

BLANK = 0
_NOTHING = -1  # in the context before the first token; the predictor knows it
UNKNOWN = "<unk>"

Context = tuple[int, ...]
"""The last tokens, which the predictor reads."""


class TransducerGraphs:
    """Computes the predictor and the joiner. A row gets the same numbers in any company."""

    def __init__(self, tokens: Sequence[str], transducer: ContextTransducer) -> None:
        self.silent = frozenset({BLANK} | ({tokens.index(UNKNOWN)} if UNKNOWN in tokens else set()))
        """The tokens that write nothing and leave the context as it is."""
        self.start: Context = (*(_NOTHING,) * (transducer.context - 1), BLANK)
        """The context before the first token."""
        self._predictor, self._joiner = open_graph(transducer.predictor), open_graph(transducer.joiner)
        self._predictor_input = transducer.predictor.inputs[0].name
        self._joiner_inputs = [port.name for port in transducer.joiner.inputs]
        self.started: NDArray[np.float32] = self.predicted([self.start])[0]
        """What the predictor says to that context."""

    def predicted(self, contexts: Sequence[Context]) -> Rows:
        """What the predictor says to these contexts."""
        rows = never_one(np.array(contexts, dtype=np.int64))
        (found,) = self._predictor.run(None, {self._predictor_input: rows})
        return np.asarray(found[: len(contexts)], dtype=np.float32)

    def joined(self, frames: Rows, predictions: Rows) -> Rows:
        """The scores of all tokens for each pair of a frame and a prediction."""
        feeds = zip(self._joiner_inputs, (never_one(frames), never_one(predictions)), strict=True)
        (found,) = self._joiner.run(None, dict(feeds))
        return np.asarray(found[: len(frames)], dtype=np.float32)
