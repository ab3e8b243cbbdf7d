"""The greedy search for transducers: at most one token a frame, with the predictor and the joiner over all slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.sessions import open_graph
from streamer.engine.graphs.token_search import TokenPath, TokenSearch
from streamer.engine.graphs.token_text import Token
from streamer.engine.models.streaming_model import Emissions
from streamer.graphs.transducer import Transducer

_BLANK = 0
_NOTHING = -1  # in the context before the first token; the predictor knows it
_UNKNOWN = "<unk>"


class TransducerGreedySearch(TokenSearch):
    """Reads frames of an encoder. The predictor is computed again for the slots that emitted a token."""

    def __init__(self, tokens: Sequence[str], transducer: Transducer, slots: int) -> None:
        super().__init__(tokens, slots)
        self._silent = {_BLANK} | ({tokens.index(_UNKNOWN)} if _UNKNOWN in tokens else set())
        self._predictor, self._joiner = open_graph(transducer.predictor), open_graph(transducer.joiner)
        self._predictor_input = transducer.predictor.inputs[0].name
        self._joiner_inputs = [port.name for port in transducer.joiner.inputs]
        start = np.full((1, transducer.context), _NOTHING, dtype=np.int64)
        start[0, -1] = _BLANK
        self._start, self._started = start[0], self._predicted(start)[0]
        self._contexts = np.repeat(start, slots, axis=0)
        self._predictions = np.repeat(self._started[None], slots, axis=0)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        self._contexts[list(slots)] = self._start
        self._predictions[list(slots)] = self._started

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        for frame in range(frames.shape[1]):
            logits = self._joined(frames[:, frame], self._predictions[list(slots)])
            best = logits.argmax(-1)
            emitting = [row for row, number in enumerate(best.tolist()) if number not in self._silent]
            for row in emitting:
                path, number = paths[row], int(best[row])
                path.tokens.append(Token(number, path.frame, path.frame + 1, _log_prob(logits[row], number)))
            for path in paths:
                path.frame += 1
            if emitting:
                numbers = [slots[row] for row in emitting]
                self._contexts[numbers] = np.roll(self._contexts[numbers], -1, axis=1)
                self._contexts[numbers, -1] = best[emitting]
                self._predictions[numbers] = self._predicted(self._contexts[numbers])

    def _predicted(self, contexts: NDArray[np.int64]) -> NDArray[np.float32]:
        (found,) = self._predictor.run(None, {self._predictor_input: _never_one(contexts)})
        return found[: len(contexts)]

    def _joined(self, frames: NDArray[np.float32], predictions: NDArray[np.float32]) -> NDArray[np.float32]:
        feeds = zip(self._joiner_inputs, (_never_one(frames), _never_one(predictions)), strict=True)
        (found,) = self._joiner.run(None, dict(feeds))
        return found[: len(frames)]


def _never_one(rows: NDArray[np.generic]) -> NDArray[np.generic]:
    """A single row twice: onnxruntime computes one row in another way, and a stream must not depend on its company."""
    return np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows


def _log_prob(logits: NDArray[np.float32], number: int) -> float:
    highest = logits.max()
    return float(logits[number] - highest - np.log(np.exp(logits - highest).sum()))
