"""Computes the tokens of a segment with the two graphs of Moonshine, the most likely token at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.reader.graph_files import ReaderGraphs
from streamer.engine.reader.pieces import BEGIN, END

FEWEST_SAMPLES: Final = 2_000  # the convolutions need 895; shorter sound is padded with silence
_MOST_COPIES, _LONGEST_LOOP, _FEWEST_REPEATED = 4, 16, 12

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TokenRun:
    """The tokens of a segment with their log-probabilities, those of the end token last if it was reached."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    complete: bool


class Network:
    """The encoder and the decoder of a reader."""

    def __init__(self, graphs: ReaderGraphs, *, threads: int = 1) -> None:
        self._encoder, self._step = (_session(graph, threads) for graph in (graphs.encoder, graphs.step))
        ports = self._step.get_inputs()[1:]
        self._sound, self._caches = ports[: len(ports) // 2], ports[len(ports) // 2 :]

    @property
    def width(self) -> int:
        """The numbers of a frame, which tell readers apart."""
        _, heads, _, size = self._caches[0].shape
        return int(heads * size)

    def read(self, samples: Floats, most_tokens: int) -> TokenRun:
        """Return the most likely tokens for a segment of sound between -1 and 1."""
        samples = np.pad(samples, (0, max(0, FEWEST_SAMPLES - len(samples))))
        sound = self._encoder.run(None, {"samples": samples[None]})
        inputs = {port.name: value for port, value in zip(self._sound, sound, strict=True)}
        names = [port.name for port in self._caches]
        inputs |= {port.name: np.zeros((1, port.shape[1], 0, port.shape[3]), np.float32) for port in self._caches}
        tokens: list[int] = []
        chances: list[float] = []
        token = BEGIN
        while len(tokens) < most_tokens:
            [[token]], [[chance]], *caches = self._step.run(None, {"tokens": np.array([[token]]), **inputs})
            inputs |= zip(names, caches, strict=True)
            chances.append(float(chance))
            if token == END:
                return TokenRun(tuple(tokens), tuple(chances), complete=True)
            tokens.append(int(token))
            if copies := repeated(tokens):
                return TokenRun(tuple(tokens[:-copies]), tuple(chances[:-copies]), complete=False)
        return TokenRun(tuple(tokens), tuple(chances), complete=False)


def repeated(tokens: Sequence[int]) -> int:
    """Return how many of the last tokens only repeat those before them; 0 if the reading does not run in circles."""
    for length in range(1, _LONGEST_LOOP + 1):
        count = max(_MOST_COPIES * length, _FEWEST_REPEATED)
        if len(tokens) >= count + length and tokens[-count:] == tokens[-count - length : -length]:
            return count
    return 0


def _session(graph: Path | bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # a plan for each length would take memory and save no time
    options.log_severity_level = 3
    content = str(graph) if isinstance(graph, Path) else graph
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
