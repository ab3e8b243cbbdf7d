"""Trains the network of a keyword spotter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.heads.keyword_spotter import WINDOW, KeywordNetwork
from streamer.training.keywords.material import Spoken

HIDDEN = 64
# The encoder tells the last phone of a word some frames after its end. From then on the word should be told, for so
# many frames. Those around them do not count.
DELAY, TELLING, DOUBTFUL = 5, 4, 4
IGNORED = -100
RATE = 3e-3
ROWS, FRAMES = 24, 150  # a batch: pieces of this length
KEYWORD_WEIGHT = 2.0


class _Trained(nn.Module):
    """The layers that are trained; `KeywordNetwork` computes the same."""

    def __init__(self, phones: int, words: int) -> None:
        super().__init__()
        self.hidden = nn.Conv1d(phones, HIDDEN, WINDOW)
        self.output = nn.Linear(HIDDEN, 1 + words)
        self.drop = nn.Dropout(0.3)

    def forward(self, phones: Tensor) -> Tensor:
        """Scores [batch, frames - WINDOW + 1, 1 + words] of the probabilities of phones."""
        seen = functional.dropout(phones, 0.1, self.training).transpose(1, 2)
        hidden = functional.relu(self.hidden(seen)).transpose(1, 2)
        scores: Tensor = self.output(self.drop(hidden))
        return scores


def train(
    material: Sequence[Spoken],
    words: Sequence[str],
    phones: nn.Linear,
    minutes: float,
    seed: int,
    tell: Callable[[str], None],
) -> KeywordNetwork:
    """Train for this many minutes of processor time. The threshold is still to be chosen.

    `phones` is the layer of the acoustic model that tells phones in frames. It stays as it is.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    fixed = {
        "silence": np.median(np.stack([each.frames[0] for each in material]), axis=0),
        "phones": _array(phones.weight).T,
        "phones_bias": _array(phones.bias),
    }
    untrained = KeywordNetwork(tuple(words), 0.5, {name: value.astype(np.float32) for name, value in fixed.items()})
    seen = [Spoken(untrained.phones(each.frames), each.keywords) for each in material]
    silence = untrained.phones(untrained.weights["silence"][None])[0]
    labels = [_labels(each) for each in seen]
    with_keywords = [number for number, each in enumerate(seen) if each.keywords]
    network = _Trained(len(silence), len(words))
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.1)
    weight = torch.full((1 + len(words),), KEYWORD_WEIGHT)
    weight[0] = 1.0
    step, begun, recent = 0, time.process_time(), 0.0
    while (progress := (time.process_time() - begun) / (60 * minutes)) < 1:
        rows, wanted = [], []
        for row in range(ROWS):
            number = int(rng.choice(with_keywords)) if row % 2 and with_keywords else int(rng.integers(len(seen)))
            piece, label = _piece(seen[number], labels[number], silence, rng)
            rows.append(piece)
            wanted.append(label)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 20) * (1 - progress)
        scores = network(torch.from_numpy(np.stack(rows)))
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
    trained = {
        "hidden": _array(network.hidden.weight).reshape(HIDDEN, -1).T,
        "hidden_bias": _array(network.hidden.bias),
        "output": _array(network.output.weight).T,
        "output_bias": _array(network.output.bias),
    }
    return replace(untrained, weights={**untrained.weights, **trained})


def _array(tensor: Tensor | None) -> NDArray[np.float32]:
    assert tensor is not None
    return tensor.detach().float().cpu().numpy()


def _labels(spoken: Spoken) -> NDArray[np.int64]:
    labels = np.zeros(len(spoken.frames), np.int64)
    for keyword in spoken.keywords:
        told = keyword.end + DELAY
        labels[max(0, told - DOUBTFUL) : told + TELLING + DOUBTFUL] = IGNORED
    for keyword in spoken.keywords:
        labels[keyword.end + DELAY : keyword.end + DELAY + TELLING] = 1 + keyword.word
    return labels


def _piece(
    spoken: Spoken, labels: NDArray[np.int64], silence: NDArray[np.float32], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """A piece of an utterance, with silence before its beginning and after its end."""
    latest = max(0, len(spoken.frames) - FRAMES)
    start = int(rng.integers(latest + 1))
    if spoken.keywords and rng.random() < 0.7:
        keyword = spoken.keywords[int(rng.integers(len(spoken.keywords)))]
        start = int(np.clip(keyword.end + DELAY - int(rng.integers(FRAMES - TELLING)), 0, latest))
    piece = np.repeat(silence[None], WINDOW - 1 + FRAMES, axis=0).astype(np.float32)
    wanted = np.full(FRAMES, IGNORED, np.int64)
    before = spoken.frames[max(0, start - WINDOW + 1) : start]
    inside = spoken.frames[start : start + FRAMES]
    piece[WINDOW - 1 - len(before) : WINDOW - 1] = before
    piece[WINDOW - 1 : WINDOW - 1 + len(inside)] = inside
    wanted[: len(inside)] = labels[start : start + FRAMES]
    return piece, wanted
