"""The punctuation model: says which mark follows a word and which capitals it has, from the words around it.

The answer for a word depends on nothing but the words and pauses from `behind` words before it to `ahead` words after
it. So it is the same however the audio was divided, and whichever other streams are computed in the same batch.
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
_END_MS = 600  # a pause after which a segment may have ended, as the network knows it
_NO_WORD = (0,) * (1 + AFFIXES)
_REMEMBERED = 8192  # words whose rows are remembered
_HALF_LIMIT = 60_000  # the greatest value of a weight in half precision, about


class PunctuationModel:
    """Marks and capitals for windows of words, many streams in one call."""

    def __init__(self, words: Sequence[str], rows: Tensor, scales: Tensor, network: MarkNetwork) -> None:
        """`rows` [number, embedding] are whole numbers from -127 to 127, to be multiplied by the `scales` [number]."""
        self._words = list(words)
        self._rows = rows
        self._scales = scales
        self._network = network.float().eval().requires_grad_(False)
        numbers = WordRows(self._words, len(rows) - len(self._words) - 1)
        self._numbers = lru_cache(_REMEMBERED)(numbers.of)

    @property
    def behind(self) -> int:
        """How many words a window must have before the first word that it asks about, if there are so many."""
        # One more than the network sees, because the pause before a word is said by the word before it.
        return self._network.shape.behind + 1

    @property
    def ahead(self) -> int:
        """How many words must follow a word, in the same segment, before its answer is settled."""
        return self._network.shape.ahead

    @torch.inference_mode()
    def over(self, words: Sequence[str]) -> float:
        """How likely it is that a sentence is over after these words, if the speaker pauses there."""
        window = [HeardWord(word.lower(), 0) for word in words[-self.behind :]]
        if not window:
            return 0.0
        line = _Line(self._numbers, self._network.shape.gap)
        line.add([*window[:-1], HeardWord(window[-1].word, _END_MS)])
        chances = torch.softmax(self._scores(line)[0][len(window) - 1], 0).tolist()
        return float(sum(chance for mark, chance in zip(_MARKS, chances, strict=True) if mark.ends_sentence))

    @torch.inference_mode()
    def read(self, windows: Sequence[Sequence[HeardWord]]) -> list[list[MarkedWord]]:
        """The answer for every word of each window.

        It is meant to be used from the word on that has `behind` words before it, or from the first word of the stream.
        The last `ahead` words may get another answer when more words are known, unless the segment ended there: then
        the last word has a pause.
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
        """The scores of the marks and of the cases [places, kinds] of all words of a line."""
        line.fill()
        table = torch.tensor(line.rows)
        vectors = self._vectors(table)
        vectors[line.ends] = self._network.end
        taken = (table[:, 1] != 0).float()
        taken[line.ends] = 1.0
        marks, cases = self._network(vectors.unsqueeze(0), torch.tensor([line.pauses]), taken.unsqueeze(0))
        return marks[0], cases[0]

    def _vectors(self, numbers: Tensor) -> Tensor:
        """The vectors of words [words, embedding]: the sums of their rows, always added in the same order."""
        flat = numbers.flatten()
        rows = self._rows.index_select(0, flat).float() * self._scales.index_select(0, flat).unsqueeze(1)
        first, *others = rows.view(*numbers.shape, -1).unbind(1)
        total = first.clone()
        for other in others:
            total += other
        return total

    @classmethod
    def build(cls, words: Sequence[str], vectors: Tensor, network: MarkNetwork) -> PunctuationModel:
        """From vectors of the rows in full precision, which are rounded to the precision of the file."""
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
        described, tensors = _FILE.read(path)
        with _FILE.parts(path):
            shape = NetworkShape.parse(described["shape"])
            words = bytes(tensors.pop("words").numpy()).decode().split("\n")
            rows, scales = tensors.pop("rows"), tensors.pop("scales")
            if rows.dtype != torch.int8 or rows.shape != (len(scales), shape.embedding) or len(rows) <= len(words) + 1:
                raise ValueError(f"it has {tuple(rows.shape)} word vectors for {len(words)} words")
            network = MarkNetwork(shape)
            network.load_state_dict({name.removeprefix("network."): part.float() for name, part in tensors.items()})
        return cls(words, rows, scales, network)


class _Line:
    """The words of all windows one after another, with gaps between them: what the network reads."""

    def __init__(self, numbers: Callable[[str], tuple[int, ...]], gap: int) -> None:
        self._numbers, self._gap = numbers, gap
        self.rows: list[tuple[int, ...]] = []
        self.pauses: list[int] = []  # before each word
        self.ends: list[int] = []  # the places where a segment ends

    def add(self, window: Sequence[HeardWord]) -> int:
        """Append a window and a gap. Returns the place of its first word."""
        start, pause_ms = len(self.rows), None
        for heard in window:
            self.rows.append(self._numbers(heard.word))
            self.pauses.append(pause_number(pause_ms))
            pause_ms = heard.pause_ms
        if pause_ms is not None:
            self.ends.append(len(self.rows))
            self.rows.append(_NO_WORD)
            self.pauses.append(pause_number(pause_ms))
        self._leave(self._gap)
        return start

    def fill(self) -> None:
        """Leave places empty until they are whole blocks."""
        self._leave(-len(self.rows) % BLOCK)

    def _leave(self, places: int) -> None:
        self.rows += [_NO_WORD] * places
        self.pauses += [0] * places


def _half(values: Tensor) -> Tensor:
    return values.detach().clamp(-_HALF_LIMIT, _HALF_LIMIT).half()
