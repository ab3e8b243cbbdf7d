"""The punctuation model. It finds the mark after a word, and its capitals, from the words around it.

The answer for a word depends only on the words and pauses from `behind` words before it to `ahead` words after it. It
does not depend on the division of the audio, nor on other streams in the same batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.model_file import ModelFileKind
from streamer.engine.text.marks import Case, HeardWord, Mark, MarkedWord

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

    def __init__(self, words: Sequence[str], rows: Tensor, scales: Tensor, network: MarkNetwork) -> None:
        """`rows` [number, embedding] has whole numbers from -127 to 127. Their factors are in `scales` [number]."""
        self._words = list(words)
        self._rows = rows
        self._scales = scales
        self._network = network.float().eval().requires_grad_(False)
        numbers = WordRows(self._words, len(rows) - len(self._words) - 1)
        self._numbers = lru_cache(_CACHED_WORDS)(numbers.of)

    @property
    def behind(self) -> int:
        """How many words a window must have before the first word whose answer is used, if the stream has them."""
        # One more than the network sees, because the pause before a word is a field of the word before it.
        return self._network.shape.behind + 1

    @property
    def ahead(self) -> int:
        """How many words of the same segment must follow a word before its answer is settled."""
        return self._network.shape.ahead

    @torch.inference_mode()
    def over(self, words: Sequence[str]) -> float:
        """Return the probability that a sentence is over after these words, if the speaker pauses there."""
        window = [HeardWord(word.lower(), 0) for word in words[-self.behind :]]
        if not window:
            return 0.0
        line = _Line(self._numbers, self._network.shape.gap)
        line.add([*window[:-1], HeardWord(window[-1].word, _PAUSE_MS)])
        shares = torch.softmax(self._scores(line)[0][len(window) - 1], 0).tolist()
        return float(sum(chance for mark, chance in zip(_MARKS, shares, strict=True) if mark.ends_sentence))

    @torch.inference_mode()
    def read(self, windows: Sequence[Sequence[HeardWord]]) -> list[list[MarkedWord]]:
        """Return the answer for every word of each window.

        Only the answers of words with `behind` words before them, or from the start of the stream, are right. The last
        `ahead` words may get other answers when more words come, unless the segment ended there: then the last word
        has a pause.
        """
        line = _Line(self._numbers, self._network.shape.gap)
        starts = [line.add(window) for window in windows]
        if not line.rows:
            return [[] for _ in windows]
        marks, cases = self._scores(line)
        answers = list(zip(marks.argmax(1).tolist(), cases.argmax(1).tolist(), strict=True))
        return [
            [MarkedWord(_MARKS[mark], _CASES[case]) for mark, case in answers[start : start + len(window)]]
            for start, window in zip(starts, windows, strict=True)
        ]

    def _scores(self, line: _Line) -> tuple[Tensor, Tensor]:
        """Return the scores of the marks and of the cases [places, kinds] for all words of a line."""
        line.fill()
        table = torch.tensor(line.rows)
        vectors = self._vectors(table)
        vectors[line.ends] = self._network.end
        occupied = (table[:, 1] != 0).float()
        occupied[line.ends] = 1.0
        marks, cases = self._network(vectors.unsqueeze(0), torch.tensor([line.pauses]), occupied.unsqueeze(0))
        return marks[0], cases[0]

    def _vectors(self, numbers: Tensor) -> Tensor:
        """Return the vectors of words [words, embedding]. Each is the sum of its rows, always in the same order."""
        flat = numbers.flatten()
        rows = self._rows.index_select(0, flat).float() * self._scales.index_select(0, flat).unsqueeze(1)
        first, *others = rows.view(*numbers.shape, -1).unbind(1)
        total = first.clone()
        for other in others:
            total += other
        return total

    @classmethod
    def build(cls, words: Sequence[str], vectors: Tensor, network: MarkNetwork) -> PunctuationModel:
        """Make a model from vectors in full precision. They are rounded to the precision of the file."""
        scales = (vectors.abs().amax(1) / 127).clamp(min=1e-8)
        rows = (vectors / scales.unsqueeze(1)).round().clamp(-127, 127).to(torch.int8)
        rounded = MarkNetwork(network.shape)
        rounded.load_state_dict({name: _half(part).float() for name, part in network.state_dict().items()})
        return cls(words, rows, scales.float(), rounded)

    def save(self, path: Path | str) -> None:
        """Write the model, replacing the file as a whole."""
        tensors = {f"network.{name}": _half(part) for name, part in self._network.state_dict().items()}
        tensors["words"] = torch.frombuffer(bytearray("\n".join(self._words).encode()), dtype=torch.uint8)
        tensors["rows"], tensors["scales"] = self._rows, self._scales
        _FILE.write(path, tensors, {"shape": self._network.shape.values()})

    @classmethod
    def load(cls, folder: Path | str) -> PunctuationModel:
        """Read the model of a bundle."""
        path = Path(folder) / PUNCTUATION_FILE
        description, tensors = _FILE.read(path)
        with _FILE.parts(path):
            shape = NetworkShape.parse(description["shape"])
            words = bytes(tensors.pop("words").numpy()).decode().split("\n")
            rows, scales = tensors.pop("rows"), tensors.pop("scales")
            if rows.dtype != torch.int8 or rows.shape != (len(scales), shape.embedding) or len(rows) <= len(words) + 1:
                raise ValueError(f"it has {tuple(rows.shape)} word vectors for {len(words)} words")
            network = MarkNetwork(shape)
            network.load_state_dict({name.removeprefix("network."): part.float() for name, part in tensors.items()})
        return cls(words, rows, scales, network)


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

    def fill(self) -> None:
        """Append empty places until the line has whole blocks."""
        self._leave(-len(self.rows) % BLOCK)

    def _leave(self, places: int) -> None:
        self.rows += [_NO_WORD] * places
        self.pauses += [0] * places


def _half(values: Tensor) -> Tensor:
    return values.detach().clamp(-_HALF_LIMIT, _HALF_LIMIT).half()


# The network of the punctuation model: a few convolutions over word vectors, with a fixed view back and ahead.

BLOCK = 32
"""The number of words in each product of matrices. The products give the same bits for any number of blocks."""

# The bounds in milliseconds between the classes of pauses. Class 0 is an unknown pause.
PAUSE_BOUNDS = (60, 140, 240, 360, 520, 760)
PAUSES = len(PAUSE_BOUNDS) + 2
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
    def parse(cls, values: dict[str, Any]) -> NetworkShape:
        """Read a shape from the values of `asdict` in JSON."""
        views = tuple(tuple(int(place) for place in view) for view in values["views"])
        if not views or not all(view and 0 in view for view in views):
            raise ValueError("every convolution must see its own place")
        return cls(int(values["embedding"]), int(values["width"]), views)

    def values(self) -> dict[str, Any]:
        """Return the shape for JSON."""
        return asdict(self)

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


class MarkNetwork(nn.Module):
    """Computes the scores of marks and cases from word vectors and pauses."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.pauses = nn.Embedding(PAUSES, shape.embedding)
        self.end = nn.Parameter(torch.zeros(shape.embedding))
        sizes = [shape.embedding] + [shape.width] * len(shape.views)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in sizes)
        self.convolutions = nn.ModuleList(
            nn.Linear(size * len(view), shape.width) for size, view in zip(sizes, shape.views, strict=False)
        )
        self.judge = nn.Linear(shape.width, MARKS + CASES)

    def forward(self, vectors: Tensor, pauses: Tensor, occupied: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of marks [rows, places, 4] and of cases [rows, places, 3].

        `vectors` [rows, places, embedding] has the vectors of words or `end`; `pauses` [rows, places] has the classes
        of the pauses before them; `occupied` [rows, places] is 1 where there is a word or an end, and otherwise 0.
        """
        mask = occupied.unsqueeze(2)
        hidden = vectors + self.pauses(pauses)
        for norm, convolution, view in zip(self.norms, self.convolutions, self.shape.views, strict=False):
            inputs = _in_view(norm(hidden) * mask, view)
            output = functional.relu(_product(inputs, convolution))
            hidden = output if hidden.shape != output.shape else hidden + output
        scores = _product(self.norms[-1](hidden), self.judge)
        return scores[..., :MARKS], scores[..., MARKS:]


def pause_number(pause_ms: int | None) -> int:
    """Return the class of a pause for the network."""
    if pause_ms is None:
        return 0
    return 1 + sum(pause_ms >= bound for bound in PAUSE_BOUNDS)


def _in_view(hidden: Tensor, view: Sequence[int]) -> Tensor:
    """Return the vectors of the places in view, side by side. There are zeros beyond the ends."""
    before, after, places = -min(view), max(view), hidden.shape[1]
    padded = functional.pad(hidden, (0, 0, before, after))
    return torch.cat([padded[:, before + place : before + place + places] for place in view], dim=2)


def _product(values: Tensor, linear: nn.Module) -> Tensor:
    """Apply the linear layer to the values [rows, places, width]."""
    assert isinstance(linear, nn.Linear)
    rows, places, width = values.shape
    if linear.weight.requires_grad or rows * places % BLOCK:
        return functional.linear(values, linear.weight, linear.bias)
    blocks = values.reshape(-1, BLOCK, width)
    weights = linear.weight.t().expand(len(blocks), width, -1)
    return (torch.bmm(blocks, weights) + linear.bias).view(rows, places, -1)
