"""The predictor and the joiner of a transducer, for any number of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.search.rows import Rows, never_one
from streamer.engine.graphs.sessions import open_graph
from streamer.graphs.transducer import ContextTransducer

BLANK = 0
_NOTHING = -1  # the number in the context before the first token, as the predictor was trained
UNKNOWN = "<unk>"

Context = tuple[int, ...]
"""The last tokens, which the predictor reads."""


class TransducerGraphs:
    """Computes the predictor and the joiner. The numbers of a row do not depend on the other rows."""

    def __init__(self, tokens: Sequence[str], transducer: ContextTransducer) -> None:
        self.silent = frozenset({BLANK} | ({tokens.index(UNKNOWN)} if UNKNOWN in tokens else set()))
        """The tokens that write nothing and leave the context as it is."""
        self.start: Context = (*(_NOTHING,) * (transducer.context - 1), BLANK)
        """The context before the first token."""
        self._predictor, self._joiner = open_graph(transducer.predictor), open_graph(transducer.joiner)
        self._predictor_input = transducer.predictor.inputs[0].name
        self._joiner_inputs = [port.name for port in transducer.joiner.inputs]
        self.started: NDArray[np.float32] = self.predict([self.start])[0]
        """The prediction for this context."""

    def predict(self, contexts: Sequence[Context]) -> Rows:
        """Return the predictions for these contexts."""
        rows = never_one(np.array(contexts, dtype=np.int64))
        (scores,) = self._predictor.run(None, {self._predictor_input: rows})
        return np.asarray(scores[: len(contexts)], dtype=np.float32)

    def join(self, frames: Rows, predictions: Rows) -> Rows:
        """Return the scores of all tokens for each pair of a frame and a prediction."""
        feeds = zip(self._joiner_inputs, (never_one(frames), never_one(predictions)), strict=True)
        (scores,) = self._joiner.run(None, dict(feeds))
        return np.asarray(scores[: len(frames)], dtype=np.float32)
