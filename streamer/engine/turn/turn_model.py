"""The turn model: how likely it is that a turn is over, if the speaker pauses after these words.

It reads the words of the segment so far, and nothing else. Each question is computed by itself, so the answer has the
same bits whichever other streams are computed at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from streamer.engine.model_file import ModelFileKind
from streamer.engine.punctuation.word_rows import AFFIXES, WordRows

TURNS_FILE = "turns.safetensors"
MOST_WORDS = 40
"""The last words of a segment that the model reads."""

_FILE = ModelFileKind("turn model", "turns", "streamer-turns-1", "train_turns.py")
_REMEMBERED = 1024  # answers: a pause asks about the same words again and again


class TurnNetwork(nn.Module):
    """Word vectors in, a score for every word out: above 0, the turn is rather over after this word."""

    def __init__(self, embedding: int = 48, memory: int = 96) -> None:
        super().__init__()
        self.embedding, self.memory = embedding, memory
        self.recall = nn.GRU(embedding, memory, batch_first=True)
        self.judge = nn.Linear(memory, 1)

    def forward(self, vectors: Tensor) -> Tensor:
        """Scores [batch, words] of vectors [batch, words, embedding]. A score depends on the words up to its own."""
        remembered, _ = self.recall(vectors)
        scores: Tensor = self.judge(torch.relu(remembered)).squeeze(2)
        return scores


class TurnModel:
    """The probability that a turn is over after the words of a segment."""

    def __init__(self, words: Sequence[str], rows: Tensor, scales: Tensor, network: TurnNetwork) -> None:
        """`rows` [number, embedding] are whole numbers from -127 to 127, to be multiplied by the `scales` [number]."""
        self._words = list(words)
        self._rows, self._scales = rows, scales
        self._network = network.float().eval().requires_grad_(False)
        self._numbers = WordRows(self._words, len(rows) - len(self._words) - 1)
        self._answer = lru_cache(_REMEMBERED)(self._compute)

    def over(self, words: Sequence[str]) -> float:
        """How likely it is that the turn is over, if the speaker pauses after these words."""
        return self._answer(tuple(word.lower() for word in words[-MOST_WORDS:])) if words else 0.0

    @torch.inference_mode()
    def _compute(self, words: tuple[str, ...]) -> float:
        numbers = torch.tensor([self._numbers.of(word) for word in words])
        vectors = self._rows[numbers].float() * self._scales[numbers].unsqueeze(2)
        return float(torch.sigmoid(self._network(vectors.sum(1).unsqueeze(0))[0, -1]))

    @classmethod
    def build(cls, words: Sequence[str], vectors: Tensor, network: TurnNetwork) -> TurnModel:
        """From vectors of the rows in full precision, which are rounded to the precision of the file."""
        scales = (vectors.abs().amax(1) / 127).clamp(min=1e-8)
        rows = (vectors / scales.unsqueeze(1)).round().clamp(-127, 127).to(torch.int8)
        rounded = TurnNetwork(network.embedding, network.memory)
        rounded.load_state_dict({name: part.detach().half().float() for name, part in network.state_dict().items()})
        return cls(words, rows, scales.float(), rounded)

    def save(self, path: Path | str) -> None:
        """Write the model, replacing the file as a whole."""
        tensors = {f"network.{name}": part.half() for name, part in self._network.state_dict().items()}
        tensors["words"] = torch.frombuffer(bytearray("\n".join(self._words).encode()), dtype=torch.uint8)
        tensors["rows"], tensors["scales"] = self._rows, self._scales
        _FILE.write(path, tensors, {"embedding": self._network.embedding, "memory": self._network.memory})

    @classmethod
    def load(cls, folder: Path | str) -> TurnModel:
        """Read the model of a bundle."""
        path = Path(folder) / TURNS_FILE
        described, tensors = _FILE.read(path)
        with _FILE.parts(path):
            words = bytes(tensors.pop("words").numpy()).decode().split("\n")
            rows, scales = tensors.pop("rows"), tensors.pop("scales")
            network = TurnNetwork(int(described["embedding"]), int(described["memory"]))
            fits = rows.dtype == torch.int8 and rows.shape == (len(scales), network.embedding)
            if not fits or len(rows) <= len(words) + 1:
                raise ValueError(f"it has {tuple(rows.shape)} word vectors for {len(words)} words")
            network.load_state_dict({name.removeprefix("network."): part.float() for name, part in tensors.items()})
        return cls(words, rows, scales, network)


NO_ROWS = (0,) * (1 + AFFIXES)
"""The rows of a place without a word."""
