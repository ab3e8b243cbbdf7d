"""The greedy search for public models with CTC. It takes the likeliest token of every frame, and merges repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.search.token_greedy import TokenGreedySearch, TokenPath
from streamer.engine.graphs.token_text import Token
from streamer.engine.models.streaming_model import Emissions


class CtcGreedySearch(TokenGreedySearch):
    """Reads frames of log-probabilities of tokens."""

    def __init__(self, tokens: Sequence[str], blank: int, slots: int) -> None:
        super().__init__(tokens, slots)
        self._blank = blank
        self._previous = [blank] * slots

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._previous[slot] = self._blank

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        best = frames.argmax(-1)
        sure = np.take_along_axis(frames, best[..., None], axis=-1)[..., 0].tolist()
        for slot, path, numbers, log_probs in zip(slots, paths, best.tolist(), sure, strict=True):
            for number, log_prob in zip(numbers, log_probs, strict=True):
                if number != self._blank:
                    if number != self._previous[slot]:
                        path.tokens.append(Token(number, path.frame, path.frame + 1, log_prob))
                    else:
                        path.tokens[-1] = replace(path.tokens[-1], end=path.frame + 1)
                self._previous[slot] = number
                path.frame += 1
