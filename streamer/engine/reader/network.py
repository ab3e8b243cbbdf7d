"""Computes the tokens of a segment with the two graphs of Moonshine, the most likely token at each step.

It also says how likely other texts are in the same segment. Only the tokens around a difference are computed for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.reader.graph_files import ReaderGraphs
from streamer.engine.reader.graphs import EXPECTED, PLACES, STEP_INPUTS, TOKENS, UNSEEN
from streamer.engine.reader.pieces import BEGIN, END
from streamer.engine.reader.reading import USUAL, ReadingOptions, TimedWord

FEWEST_SAMPLES: Final = 2_000  # the convolutions need 895; shorter sound is padded with silence
_UNSEEN: Final = -1e9
_COMPARED_AFTER: Final = 3  # tokens after a difference
_MOST_COPIES, _LONGEST_LOOP, _FEWEST_REPEATED = 4, 16, 12

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TokenRun:
    """The tokens of a segment with their log-probabilities, those of the end token last if it was reached.

    `limited`: more tokens would have followed, but the network writes no more.
    """

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    complete: bool
    limited: bool = False


@dataclass(frozen=True)
class Change:
    """A part of a text to compare with what was read: these tokens, after the first `place` tokens of the reading."""

    place: int
    tokens: tuple[int, ...]


class Network:
    """The encoder and the decoder of a reader for English."""

    languages = ("en",)
    tokens_a_second = 6.5

    def __init__(self, graphs: ReaderGraphs, *, threads: int = 1) -> None:
        self._encoder, self._step = (_session(graph, threads) for graph in (graphs.encoder, graphs.step))
        ports = [port for port in self._step.get_inputs() if port.name not in STEP_INPUTS]
        self._sound, self._caches = ports[: len(ports) // 2], ports[len(ports) // 2 :]

    @property
    def width(self) -> int:
        """The numbers of a frame, which tell readers apart."""
        _, heads, _, size = self._caches[0].shape
        return int(heads * size)

    def read(self, samples: Floats, most_tokens: int, options: ReadingOptions = USUAL) -> ReadSound:
        """Read the most likely tokens in a segment of sound between -1 and 1."""
        samples = np.pad(samples, (0, max(0, FEWEST_SAMPLES - len(samples))))
        sound = self._encoder.run(None, {"samples": samples[None]})
        inputs = {port.name: value for port, value in zip(self._sound, sound, strict=True)}
        names = [port.name for port in self._caches]
        inputs |= {port.name: np.zeros((1, port.shape[1], 0, port.shape[3]), np.float32) for port in self._caches}
        tokens: list[int] = []
        chances: list[float] = []
        token, run = BEGIN, None
        while run is None:
            if len(tokens) == most_tokens:
                run = TokenRun(tuple(tokens), tuple(chances), complete=False, limited=True)
                break
            last, place = np.array([[token]]), np.array([[len(tokens)]])
            seen = np.zeros((1, 1, 1, len(tokens) + 1), np.float32)
            step = {TOKENS: last, PLACES: place, EXPECTED: last, UNSEEN: seen}
            [[token]], [[chance]], _, *caches = self._step.run(None, step | inputs)
            inputs |= zip(names, caches, strict=True)
            chances.append(float(chance))
            if token == END:
                run = TokenRun(tuple(tokens), tuple(chances), complete=True)
                break
            tokens.append(int(token))
            if copies := repeated(tokens):
                run = TokenRun(tuple(tokens[:-copies]), tuple(chances[:-copies]), complete=False)
        return ReadSound(run, inputs, names, self._step)


class ReadSound:
    """A segment that was read, with all that is needed to say how likely other texts are."""

    language = ""
    words: tuple[TimedWord, ...] = ()

    def __init__(
        self, run: TokenRun, inputs: dict[str, Floats], caches: Sequence[str], step: onnxruntime.InferenceSession
    ) -> None:
        self.run, self._inputs, self._caches, self._step = run, inputs, caches, step

    def compare(self, changes: Sequence[Change]) -> list[Floats]:
        """Return the log-probability of each token of these changes, after the tokens before them.

        All are computed in one step, in which they do not see each other.
        """
        if not any(change.tokens for change in changes):
            return [np.zeros(0, np.float32) for _ in changes]
        line = [BEGIN, *self.run.tokens]
        tokens: list[int] = []
        places: list[int] = []
        spans: list[tuple[int, int]] = []
        for change in changes:
            spans.append((len(tokens), len(tokens) + len(change.tokens)))
            tokens += [line[change.place], *change.tokens[:-1]][: len(change.tokens)]
            places += range(change.place, change.place + len(change.tokens))
        past = self._inputs[self._caches[0]].shape[2]
        unseen = np.full((len(tokens), past + len(tokens)), _UNSEEN, np.float32)
        for change, (first, last) in zip(changes, spans, strict=True):
            unseen[first:last, : change.place] = 0.0
            for row in range(first, last):
                unseen[row, past + first : past + row + 1] = 0.0
        step = {
            TOKENS: np.array([tokens]),
            PLACES: np.array([places]),
            EXPECTED: np.array([[token for change in changes for token in change.tokens]]),
            UNSEEN: unseen[None, None],
        }
        _, _, [chances], *_ = self._step.run(None, step | self._inputs)
        return [chances[first:last] for first, last in spans]


def changed(line: Sequence[int], first: int, last: int, new: Sequence[int]) -> tuple[Change, int]:
    """Return the change of these tokens of a reading to new ones, and the place in the reading up to which it goes.

    It begins where both differ, and has some of the tokens after that: what was read there may be unlikely after it.
    """
    one, other = [*line, END], [*line[:first], *new, *line[last:], END]
    shortest = min(len(one), len(other))
    place = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    behind = next((at for at in range(shortest - place) if one[-1 - at] != other[-1 - at]), shortest - place)
    after = min(_COMPARED_AFTER, behind)
    return Change(place, tuple(other[place : len(other) - behind + after])), len(one) - behind + after


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
