"""Trains the network of a keyword spotter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.heads.keyword_spotter import WINDOW, KeywordNetwork
from streamer.training.keywords.material import Spoken

REDUCED, HIDDEN = 24, 48
# The frames after the end of a word in which it should be told, and those around them that do not count.
TELLING, DOUBTFUL = 3, 3
IGNORED = -100
ROWS, FRAMES = 24, 150  # a batch: pieces of this length
KEYWORD_WEIGHT = 3.0


class _Trained(nn.Module):
    """The network as torch trains it; `KeywordNetwork` computes the same."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(width, REDUCED)
        self.hidden = nn.Conv1d(REDUCED, HIDDEN, WINDOW)
        self.output = nn.Linear(HIDDEN, 1 + words)
        self.drop = nn.Dropout(0.3)

    def forward(self, frames: Tensor) -> Tensor:
        """Scores [batch, frames - WINDOW + 1, 1 + words] of normalised frames."""
        reduced = functional.relu(self.reduce(self.drop(frames))).transpose(1, 2)
        hidden = functional.relu(self.hidden(functional.dropout1d(reduced, 0.2, self.training)))
        scores: Tensor = self.output(self.drop(hidden.transpose(1, 2)))
        return scores


def train(
    material: Sequence[Spoken], words: Sequence[str], minutes: float, seed: int, tell: Callable[[str], None]
) -> KeywordNetwork:
    """Train for this many minutes of processor time. The threshold is still to be chosen."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    frames = np.concatenate([each.frames for each in material])
    mean, deviation = frames.mean(axis=0), frames.std(axis=0) + 1e-3
    labels = [_labels(each) for each in material]
    with_keywords = [number for number, each in enumerate(material) if each.keywords]
    network = _Trained(frames.shape[1], len(words))
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.1)
    weight = torch.full((1 + len(words),), KEYWORD_WEIGHT)
    weight[0] = 1.0
    step, begun, recent = 0, time.process_time(), 0.0
    while (progress := (time.process_time() - begun) / (60 * minutes)) < 1:
        rows, wanted = [], []
        for row in range(ROWS):
            number = int(rng.choice(with_keywords)) if row % 2 and with_keywords else int(rng.integers(len(material)))
            piece, label = _piece(material[number], labels[number], mean, rng)
            rows.append(piece)
            wanted.append(label)
        inputs = torch.from_numpy((np.stack(rows) - mean) / deviation)
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 20) * (1 - progress)
        scores = network(inputs)
        loss = functional.cross_entropy(
            scores.flatten(0, 1), torch.from_numpy(np.stack(wanted)).flatten(), weight, ignore_index=IGNORED
        )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        step += 1
        recent += (loss.item() - recent) / min(step, 50)
        if step % 100 == 0:
            tell(f"step {step}, {100 * progress:.0f} %: loss {recent:.4f}")
    return _network(network, words, mean, deviation)


def _labels(spoken: Spoken) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    labels = np.zeros(len(spoken.frames), np.int64)
    for keyword in spoken.keywords:
        labels[max(0, keyword.end - DOUBTFUL) : keyword.end + TELLING + DOUBTFUL] = IGNORED
    for keyword in spoken.keywords:
        labels[keyword.end : keyword.end + TELLING] = 1 + keyword.word
    return labels


def _piece(
    spoken: Spoken, labels: np.ndarray[tuple[int], np.dtype[np.int64]], mean: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A piece of an utterance, with the mean of all frames before its beginning and after its end."""
    latest = max(0, len(spoken.frames) - FRAMES)
    start = int(rng.integers(latest + 1))
    if spoken.keywords and rng.random() < 0.7:
        keyword = spoken.keywords[int(rng.integers(len(spoken.keywords)))]
        start = int(np.clip(keyword.end - int(rng.integers(FRAMES - TELLING)), 0, latest))
    piece = np.repeat(mean[None], WINDOW - 1 + FRAMES, axis=0).astype(np.float32)
    wanted = np.full(FRAMES, IGNORED, np.int64)
    before = spoken.frames[max(0, start - WINDOW + 1) : start]
    inside = spoken.frames[start : start + FRAMES]
    piece[WINDOW - 1 - len(before) : WINDOW - 1] = before
    piece[WINDOW - 1 : WINDOW - 1 + len(inside)] = inside
    wanted[: len(inside)] = labels[start : start + FRAMES]
    return piece, wanted


def _network(network: _Trained, words: Sequence[str], mean: np.ndarray, deviation: np.ndarray) -> KeywordNetwork:
    def array(tensor: Tensor) -> np.ndarray:
        return tensor.detach().numpy().astype(np.float32)

    weights = {
        "mean": mean.astype(np.float32),
        "deviation": deviation.astype(np.float32),
        "reduce": array(network.reduce.weight).T,
        "reduce_bias": array(network.reduce.bias),
        "hidden": array(network.hidden.weight).reshape(HIDDEN, -1).T,
        "hidden_bias": array(network.hidden.bias),
        "output": array(network.output.weight).T,
        "output_bias": array(network.output.bias),
    }
    return KeywordNetwork(tuple(words), 0.5, weights)
