"""Trains the network of a keyword spotter on places that have the phones of a keyword, or nearly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.heads.keyword_network import KERNEL, STRIDE, WINDOW, KeywordNetwork
from streamer.training.keywords.candidates import Candidates, candidates
from streamer.training.keywords.material import Spoken

PROJECTED, HIDDEN = 24, 64
RATE, WARM_UP = 2e-3, 50
ROWS = 128  # of a batch
NOISE = 0.3  # added to frames
DECAY = 0.3
SMOOTHING = 0.02  # labels are not quite 0 or 1; otherwise all thresholds would be next to 1
# Before the training, the score of the phones alone decides.
FIRST_WEIGHT, FIRST_BIAS = 0.5, 2.0


def untrained(
    words: Sequence[str],
    pronunciations: Sequence[tuple[int, tuple[int, ...]]],
    phones: nn.Linear,
    material: Sequence[Spoken],
) -> KeywordNetwork:
    """Return a network that knows only the phones. `phones` is the layer of the acoustic model that finds them."""
    weights = {
        "silence": np.median(np.stack([each.frames[0] for each in material]), axis=0),
        "phones": _array(phones.weight).T,
        "phones_bias": _array(phones.bias),
    }
    return KeywordNetwork(
        tuple(words),
        tuple(pronunciations),
        np.full(len(words), 0.5, np.float32),
        {name: value.astype(np.float32) for name, value in weights.items()},
    )


class _Trained(nn.Module):
    """The layers that are trained; `KeywordNetwork` computes the same."""

    def __init__(self, network: KeywordNetwork) -> None:
        super().__init__()
        words = len(network.words)
        self.phones: Tensor = torch.from_numpy(network.weights["phones"])
        self.phones_bias: Tensor = torch.from_numpy(network.weights["phones_bias"])
        self.projection = nn.Linear(network.width, PROJECTED)
        self.first = nn.Conv1d(len(self.phones_bias) + PROJECTED, HIDDEN, KERNEL, STRIDE)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, KERNEL, STRIDE)
        places = ((WINDOW - KERNEL) // STRIDE + 1 - KERNEL) // STRIDE + 1
        self.output = nn.Linear(places * HIDDEN, words)
        self.score = nn.Parameter(torch.full((words,), FIRST_WEIGHT))
        nn.init.constant_(self.output.bias, FIRST_BIAS)

    def forward(self, frames: Tensor, words: Tensor, scores: Tensor) -> Tensor:
        """Return the logit of one word for each window."""
        shares = functional.softmax(frames @ self.phones + self.phones_bias, -1)
        if self.training:
            frames = frames + NOISE * torch.randn_like(frames)
            shares = functional.dropout(shares, 0.1)
        inputs = torch.cat([shares, self.projection(frames)], -1).transpose(1, 2)
        hidden = functional.relu(self.second(functional.relu(self.first(inputs)))).transpose(1, 2).flatten(1)
        logits = self.output(functional.dropout(hidden, 0.3, self.training))
        chosen: Tensor = logits.gather(1, words[:, None])[:, 0] + self.score[words] * scores
        return chosen

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights as `KeywordNetwork` uses them."""
        layers: dict[str, nn.Linear | nn.Conv1d] = {
            "projection": self.projection,
            "first": self.first,
            "second": self.second,
            "output": self.output,
        }
        matrices = {name: _array(layer.weight).reshape(len(layer.weight), -1).T for name, layer in layers.items()}
        return (
            matrices
            | {f"{name}_bias": _array(layer.bias) for name, layer in layers.items()}
            | {"score": _array(self.score)}
        )


def train(
    network: KeywordNetwork, material: Sequence[Spoken], steps: int, seed: int, tell: Callable[[str], None]
) -> KeywordNetwork:
    """Train for this many steps. `with_thresholds` must choose the thresholds afterwards."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    places = candidates(network, material)
    tell(f"{len(places.words)} places that sound like keywords; {int(places.right.sum())} of them are")
    trained = _Trained(network)
    optimiser = torch.optim.AdamW(trained.parameters(), lr=RATE, weight_decay=DECAY)
    chances = _balanced(places)
    recent = 0.0
    for step in range(1, steps + 1 if len(chances) else 0):
        rows = rng.choice(len(chances), ROWS, p=chances)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, step / WARM_UP) * (1 - step / (steps + 1))
        logits = trained(
            torch.from_numpy(places.windows[rows].astype(np.float32)),
            torch.from_numpy(places.words[rows]),
            torch.from_numpy(places.scores[rows]),
        )
        right = torch.from_numpy(places.right[rows].astype(np.float32))
        loss = functional.binary_cross_entropy_with_logits(logits, right * (1 - 2 * SMOOTHING) + SMOOTHING)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        recent += (loss.item() - recent) / min(step, 100)
        if step % 100 == 0:
            tell(f"step {step} of {steps}: loss {recent:.4f}")
    return replace(network, weights={**network.weights, **trained.weights()})


def _balanced(places: Candidates) -> NDArray[np.float64]:
    """Return the chance of each candidate. Those of rare words, right or wrong, are drawn more often than others."""
    if not len(places.words):
        return np.zeros(0)
    kinds = 2 * places.words + places.right
    drawn = 1 / np.sqrt(np.bincount(kinds)[kinds])
    return np.asarray(drawn / drawn.sum())


def _array(tensor: Tensor | None) -> NDArray[np.float32]:
    assert tensor is not None
    return tensor.detach().float().cpu().numpy()
