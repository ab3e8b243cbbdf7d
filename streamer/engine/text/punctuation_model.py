"""The punctuation model. It finds the mark after a word, and its capitals, from the words around it.

The answer for a word depends only on the words and pauses from `behind` words before it to `ahead` words after it. It
does not depend on the division of the audio, nor on other streams in the same batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.json_types import JsonObject
from streamer.engine.array_memory import Arrays
from streamer.engine.model_file import ModelFileKind
from streamer.engine.network_graphs import CompiledGraph, NetworkWriter, Origin
from streamer.engine.text.marks import Case, HeardWord, Mark, MarkedWord
from streamer.models.onnx_file import ElementType

# The rows of a word in the table of word vectors: a row for the word itself, and rows for its beginning and its end.

AFFIXES = 3
"""The number of rows for the beginning and the end of every word."""


class WordRows:
    """The rows of each word. Row 0 means no word. An unknown word has it in place of a row of its own."""

    def __init__(self, words: Sequence[str], affix_rows: int) -> None:
        self._own = {word: number for number, word in enumerate(words, start=1)}
        self._first_affix = len(words) + 1
        self._affix_rows = affix_rows

    def __len__(self) -> int:
        return self._first_affix + self._affix_rows

    def of(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the rows of a word: first its own row, then AFFIXES others."""
        affixes = (f"{word[:3]}-", f"-{word[-2:]}", f"-{word[-4:]}+")
        return self._own.get(word, 0), *map(self._affix_row, affixes)

    def _affix_row(self, affix: str) -> int:
        return self._first_affix + zlib.crc32(affix.encode()) % self._affix_rows


PUNCTUATION_FILE = "punctuation.safetensors"
_FILE = ModelFileKind("punctuation model", "punctuation", "streamer-punctuation-1", "train_punctuation.py")
_MARKS = tuple(Mark)
_CASES = tuple(Case)
_PAUSE_MS = 600  # the pause after the last word for which `over` computes the marks
_NO_WORD = (0,) * (1 + AFFIXES)
_CACHED_WORDS = 8192  # the number of words whose rows are cached
_HALF_LIMIT = 60_000  # a bit less than the greatest number in half precision


class PunctuationModel:
    """Computes marks and capitals for windows of words of many streams in one call."""

    def __init__(
        self,
        words: Sequence[str],
        rows: NDArray[np.int8],
        scales: Floats,
        shape: NetworkShape,
        weights: MarkWeights,
    ) -> None:
        """`rows` [number, embedding] has whole numbers from -127 to 127. Their factors are in `scales` [number]."""
        self._words = list(words)
        self._rows = rows
        self._scales = scales
        self.shape, self.weights = shape, weights
        self._end, self._pauses = (weights[name].astype(np.float32) for name in ("end", "pauses.weight"))
        self._network = CompiledMarks(shape, weights)
        numbers = WordRows(self._words, len(rows) - len(self._words) - 1)
        self._numbers = lru_cache(_CACHED_WORDS)(numbers.of)

    @property
    def behind(self) -> int:
        """How many words a window must have before the first word whose answer is used, if the stream has them."""
        # One more than the network sees, because the pause before a word is a field of the word before it.
        return self.shape.behind + 1

    @property
    def ahead(self) -> int:
        """How many words of the same segment must follow a word before its answer is settled."""
        return self.shape.ahead

    def over(self, words: Sequence[str]) -> float:
        """Return the probability that a sentence is over after these words, if the speaker pauses there."""
        window = [HeardWord(word.lower(), 0) for word in words[-self.behind :]]
        if not window:
            return 0.0
        line = _Line(self._numbers, self.shape.gap)
        line.add([*window[:-1], HeardWord(window[-1].word, _PAUSE_MS)])
        scores = self._scores(line)[len(window) - 1, :MARKS].astype(np.float64)
        shares = np.exp(scores - scores.max())
        over = sum(share for mark, share in zip(_MARKS, shares.tolist(), strict=True) if mark.ends_sentence)
        return float(over / shares.sum())

    def read(self, windows: Sequence[Sequence[HeardWord]]) -> list[list[MarkedWord]]:
        """Return the answer for every word of each window.

        Only the answers of words with `behind` words before them, or from the start of the stream, are right. The last
        `ahead` words may get other answers when more words come, unless the segment ended there: then the last word
        has a pause.
        """
        line = _Line(self._numbers, self.shape.gap)
        starts = [line.add(window) for window in windows]
        if not line.rows:
            return [[] for _ in windows]
        scores = self._scores(line)
        likeliest = scores[:, :MARKS].argmax(1), scores[:, MARKS:].argmax(1)
        answers = list(zip(*(numbers.tolist() for numbers in likeliest), strict=True))
        return [
            [MarkedWord(_MARKS[mark], _CASES[case]) for mark, case in answers[start : start + len(window)]]
            for start, window in zip(starts, windows, strict=True)
        ]

    def _scores(self, line: _Line) -> Floats:
        """Return the scores of the marks, and then of the cases [places, kinds] for all words of a line."""
        table = np.array(line.rows)
        vectors = self._vectors(table)
        vectors[line.ends] = self._end
        occupied = (table[:, 1:2] != 0).astype(np.float32)
        occupied[line.ends] = 1.0
        return self._network(vectors + self._pauses[line.pauses], occupied)

    def _vectors(self, numbers: NDArray[np.int64]) -> Floats:
        """Return the vectors of words [words, embedding]. Each is the sum of its rows, always in the same order."""
        first, *others = (
            self._rows[column].astype(np.float32) * self._scales[column, np.newaxis] for column in numbers.T
        )
        for other in others:
            first += other
        return first

    @classmethod
    def build(
        cls, words: Sequence[str], vectors: Floats, shape: NetworkShape, weights: MarkWeights
    ) -> PunctuationModel:
        """Make a model from vectors and weights in full precision. They are rounded to the precision of the file."""
        scales = np.maximum(np.abs(vectors).max(1) / np.float32(127), np.float32(1e-8))
        rows = np.rint(vectors / scales[:, np.newaxis]).clip(-127, 127).astype(np.int8)
        return cls(words, rows, scales, shape, {name: _half(part) for name, part in weights.items()})

    def save(self, path: Path | str) -> None:
        """Write the model, replacing the file as a whole."""
        arrays: Arrays = {f"network.{name}": part for name, part in self.weights.items()}
        arrays["words"] = np.frombuffer("\n".join(self._words).encode(), np.uint8)
        arrays["rows"], arrays["scales"] = self._rows, self._scales
        _FILE.write(path, arrays, {"shape": self.shape.values()})

    @classmethod
    def load(cls, folder: Path | str) -> PunctuationModel:
        """Read the model of a bundle."""
        path = Path(folder) / PUNCTUATION_FILE
        description, arrays = _FILE.read(path)
        with _FILE.parts(path):
            shape = NetworkShape.parse(description["shape"])
            words = bytes(arrays.pop("words")).decode().split("\n")
            rows, scales = arrays.pop("rows"), arrays.pop("scales")
            if rows.dtype != np.int8 or rows.shape != (len(scales), shape.embedding) or len(rows) <= len(words) + 1:
                raise ValueError(f"it has {tuple(rows.shape)} word vectors for {len(words)} words")
            weights = {name.removeprefix("network."): part for name, part in arrays.items()}
            if {name: part.shape for name, part in weights.items()} != shape.weights:
                raise ValueError(f"its network does not have the shape {shape.values()}")
            return cls(words, rows, scales, shape, weights)


class _Line:
    """The words of all windows one after another, with gaps between them, as the network reads them."""

    def __init__(self, numbers: Callable[[str], tuple[int, ...]], gap: int) -> None:
        self._numbers, self._gap = numbers, gap
        self.rows: list[tuple[int, ...]] = []
        self.pauses: list[int] = []  # before each word
        self.ends: list[int] = []  # the places where a segment ends

    def add(self, window: Sequence[HeardWord]) -> int:
        """Append a window and a gap. Return the place of its first word."""
        start, pause_ms = len(self.rows), None
        for word in window:
            self.rows.append(self._numbers(word.word))
            self.pauses.append(pause_number(pause_ms))
            pause_ms = word.pause_ms
        if pause_ms is not None:
            self.ends.append(len(self.rows))
            self.rows.append(_NO_WORD)
            self.pauses.append(pause_number(pause_ms))
        self._leave(self._gap)
        return start

    def _leave(self, places: int) -> None:
        self.rows += [_NO_WORD] * places
        self.pauses += [0] * places


def _half(values: NDArray[Any]) -> NDArray[np.float16]:
    return values.clip(-_HALF_LIMIT, _HALF_LIMIT).astype(np.float16)


# The network of the model as a graph: a few convolutions over word vectors. It has a fixed view back and ahead.

Floats = NDArray[np.float32]
MarkWeights = Mapping[str, NDArray[Any]]
"""The weights of the network, by the names that they have in `MarkNetwork` (`workshop/punctuation/fitting.py`)."""

# The bounds in milliseconds between the classes of pauses. Class 0 is an unknown pause.
PAUSE_BOUNDS = (60, 140, 240, 360, 520, 760)
PAUSES = len(PAUSE_BOUNDS) + 2
# How many scores of marks and of capitals a word has.
MARKS = 4
CASES = 3


@dataclass(frozen=True)
class NetworkShape:
    """The size of a network. `views` has, for each convolution, the places that it sees, relative to its own."""

    embedding: int = 96
    width: int = 160
    views: tuple[tuple[int, ...], ...] = (
        (-3, -2, -1, 0, 1),
        (-3, -2, -1, 0, 1),
        (-6, -4, -2, 0, 1),
        (-4, -3, -2, -1, 0),
    )

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> NetworkShape:
        """Read a shape from the values of `asdict` in JSON."""
        views = tuple(tuple(int(place) for place in view) for view in values["views"])
        if not views or not all(view and 0 in view for view in views):
            raise ValueError("every convolution must see its own place")
        return cls(int(values["embedding"]), int(values["width"]), views)

    def values(self) -> JsonObject:
        """Return the shape for JSON."""
        return asdict(self)

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights of a network of this size."""
        sizes = [self.embedding] + [self.width] * len(self.views)
        shapes: dict[str, tuple[int, ...]] = {"pauses.weight": (PAUSES, self.embedding), "end": (self.embedding,)}
        for number, size in enumerate(sizes):
            shapes |= {f"norms.{number}.{name}": (size,) for name in ("weight", "bias")}
        for number, view in enumerate(self.views):
            shapes[f"convolutions.{number}.weight"] = self.width, sizes[number] * len(view)
            shapes[f"convolutions.{number}.bias"] = (self.width,)
        return shapes | {"judge.weight": (MARKS + CASES, self.width), "judge.bias": (MARKS + CASES,)}

    @property
    def behind(self) -> int:
        """The number of words before a word on which its answer depends."""
        return -sum(min(view) for view in self.views)

    @property
    def ahead(self) -> int:
        """The number of words after a word on which its answer depends."""
        return sum(max(view) for view in self.views)

    @property
    def gap(self) -> int:
        """The number of empty places that must lie between two texts, so that neither sees the other."""
        return max(max(-min(view), max(view)) for view in self.views)


def pause_number(pause_ms: int | None) -> int:
    """Return the class of a pause for the network."""
    if pause_ms is None:
        return 0
    return 1 + sum(pause_ms >= bound for bound in PAUSE_BOUNDS)


class CompiledMarks(CompiledGraph):
    """Computes the same as `MarkNetwork`, up to rounding.

    The bits of a place do not depend on the number of places that are computed with it.
    """

    def __init__(self, shape: NetworkShape, weights: MarkWeights) -> None:
        parts = [weights[name] for name in sorted(weights)]
        origin = Origin("marks", [str(shape), *parts], sum(part.nbytes for part in parts))
        super().__init__(lambda: mark_graph(shape, weights), origin=origin, plans=False)

    def __call__(self, vectors: Floats, occupied: Floats) -> Floats:
        """Return the scores of marks and cases, side by side [places, 7].

        `vectors` [places, embedding] has the vectors of words and ends, with those of the pauses before them;
        `occupied` [places, 1] is 1 where there is a word or an end, and otherwise 0.
        """
        scores: Floats
        [scores] = self._session.run(None, {"vectors": vectors, "occupied": occupied})
        return scores


_PLACES: Final = "places"
_END: Final = 2**62  # the end of a slice that goes to the end of its axis
_EPSILON: Final = 1e-5  # of layer normalisation in torch


def mark_graph(shape: NetworkShape, weights: MarkWeights) -> bytes:
    """Return the graph as the content of a file. Products of rows are faster than its operation for convolutions."""
    graph = NetworkWriter()
    hidden, size = graph.input("vectors", [_PLACES, shape.embedding]), shape.embedding
    occupied = graph.input("occupied", [_PLACES, 1])

    def norm(rows: str, number: int) -> str:
        parts = (_constant(graph, weights[f"norms.{number}.{name}"]) for name in ("weight", "bias"))
        return graph.node("LayerNormalization", rows, *parts, axis=-1, epsilon=_EPSILON)

    def product(rows: str, name: str) -> str:
        return graph.linear(rows, _full(weights[f"{name}.weight"]), _full(weights[f"{name}.bias"]))

    for number, view in enumerate(shape.views):
        rows = _in_view(graph, graph.node("Mul", norm(hidden, number), occupied), view)
        output = graph.node("Relu", product(rows, f"convolutions.{number}"))
        hidden = graph.node("Add", hidden, output) if size == shape.width else output
        size = shape.width
    graph.output(product(norm(hidden, len(shape.views)), "judge"), [_PLACES, MARKS + CASES])
    return graph.content()


def _in_view(graph: NetworkWriter, rows: str, view: Sequence[int]) -> str:
    """Add the rows of the places in view, side by side. There are zeros beyond the ends."""
    before, after = -min(view), max(view)
    padded = graph.node("Pad", rows, graph.numbers(before, 0, after, 0))
    axis, parts = graph.numbers(0), []
    for place in view:
        end = place - after or _END
        parts.append(graph.node("Slice", padded, graph.numbers(before + place), graph.numbers(end), axis))
    return graph.node("Concat", *parts, axis=1)


def _constant(graph: NetworkWriter, weights: NDArray[Any]) -> str:
    return graph.constant(_full(weights).tobytes(), weights.shape, ElementType.FLOAT)


def _full(weights: NDArray[Any]) -> Floats:
    return weights.astype(np.float32)
