"""The punctuation model. It finds the mark after a word, and its capitals, from the words around it.

The answer for a word depends only on the words and pauses from `behind` words before it to `ahead` words after it. It
does not depend on the division of the audio, nor on other streams in the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.model_file import ModelFileKind
from streamer.engine.punctuation.mark_network import BLOCK, MarkNetwork, NetworkShape, pause_number
from streamer.engine.punctuation.marks import Case, HeardWord, Mark, MarkedWord
from streamer.engine.punctuation.word_rows import AFFIXES, WordRows

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
