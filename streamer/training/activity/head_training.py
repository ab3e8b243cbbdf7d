"""Training of the activity head, on examples that are drawn during the training."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.features import CONTEXT, LogMel
from streamer.training.activity.examples import Example, ExampleSource

# Speech at the end of a frame may be detected a frame later: the rule after the head allows for this delay.
DELAY_FRAMES = 1
STATISTICS_EXAMPLES = 48


def train(
    examples: ExampleSource,
    minutes: float,
    rows: int,
    rate: float,
    seed: int,
    tell: Callable[[str], None],
    start: ActivityNetwork | None = None,
) -> ActivityNetwork:
    """Train a head, a new one or `start`, for minutes of processor time. The learning rate falls to zero at the end."""
    torch.manual_seed(seed)
    rng, features = np.random.default_rng(seed), LogMel()
    head = start or _new_head(features, [examples.draw(rng) for _ in range(STATISTICS_EXAMPLES)])
    optimiser = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
    step, begun, recent = 0, time.process_time(), 0.0
    while (progress := (time.process_time() - begun) / (60 * minutes)) < 1:
        energies, speech = _batch(features, [examples.draw(rng) for _ in range(rows)])
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * min(1.0, (1 - progress) / 0.7)
        loss = _loss(head(energies), speech)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimiser.step()
        step += 1
        recent += (loss.item() - recent) / min(step, 25)
        if step % 25 == 0:
            tell(f"step {step}, {100 * progress:.0f} %: loss {recent:.4f}")
    return head.eval()


def _new_head(features: LogMel, examples: list[Example]) -> ActivityNetwork:
    """Return a new head, which normalises by the mean and deviation of these examples."""
    energies, _ = _batch(features, examples)
    head = ActivityNetwork()
    deviation, mean = torch.std_mean(energies.flatten(0, 1), dim=0)
    head.mean.copy_(mean)
    head.deviation.copy_(deviation)
    return head


def _batch(features: LogMel, examples: list[Example]) -> tuple[Tensor, Tensor]:
    samples = torch.from_numpy(np.stack([example.samples for example in examples])).float() / 32768
    speech = torch.from_numpy(np.stack([example.speech for example in examples]))
    with torch.no_grad():
        energies = features.energies(functional.pad(samples, (CONTEXT, 0)))
    return energies, functional.pad(speech, (DELAY_FRAMES, 0))[:, : speech.shape[1]]


def _loss(log_probabilities: Tensor, speech: Tensor) -> Tensor:
    speaking = log_probabilities.squeeze(2)
    silent = torch.log(-torch.expm1(speaking.clamp(max=-1e-6)))
    return -(speech * speaking + (1 - speech) * silent).mean()
