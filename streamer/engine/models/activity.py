"""Whether somebody is speaking: a small network on the features beside the encoder, and the rule that follows it.

The network has weights of its own, so it judges music, keyboards and noise without the words. The rule turns its
probabilities into starts and ends of speech, with hysteresis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.models.streaming_model import State

CONTEXT_FRAMES = 7
"""Feature frames before the first one that the network's convolutions look back on."""


class ActivityHead(nn.Module):
    """Log-mel energies in, the log-probability of speech out, a frame for every four; looks back only."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mels: int = 80, width: int = 48, memory: int = 64) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("deviation", torch.ones(mels))
        self.first = nn.Conv1d(mels, width, 5, stride=2)
        self.second = nn.Conv1d(width, width, 4, stride=2)
        self.recall = nn.GRU(width, memory, batch_first=True)
        self.judge = nn.Linear(memory, 1)

    def forward(self, energies: Tensor) -> Tensor:
        """Log-probabilities [batch, frames, 1] of energies [batch, 4 * frames, mels] with nothing before them."""
        fresh = self.make_state(len(energies))
        return self.advance(energies, fresh["activity_past"], fresh["activity_memory"])[0]

    def advance(self, energies: Tensor, past: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same, going on from `past` and `memory`; returns what the next call goes on from, too."""
        recent = torch.cat((past, (energies - self.mean) / self.deviation), dim=1)
        hidden = functional.silu(self.first(recent.transpose(1, 2)))
        hidden = functional.silu(self.second(hidden)).transpose(1, 2)
        remembered, last = self.recall(hidden, memory.unsqueeze(0).contiguous())
        return functional.logsigmoid(self.judge(remembered)), recent[:, -CONTEXT_FRAMES:], last.squeeze(0)

    def make_state(self, slots: int) -> State:
        """A fresh state for so many streams."""
        return {
            "activity_past": self.mean.new_zeros(slots, CONTEXT_FRAMES, len(self.mean)),
            "activity_memory": self.mean.new_zeros(slots, self.recall.hidden_size),
        }

    def step(self, state: State, slots: Tensor, energies: Tensor) -> Tensor:
        """Log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        kept, memory = state["activity_past"], state["activity_memory"]
        found, past, last = self.advance(energies, kept.index_select(0, slots), memory.index_select(0, slots))
        kept.index_copy_(0, slots, past)
        memory.index_copy_(0, slots, last)
        return found


@dataclass(frozen=True)
class Change:
    """Speech began (`speaking`) or ended at this frame of the segment, which lies in the past."""

    speaking: bool
    frame: int


@dataclass(frozen=True)
class ActivityRule:
    """Speech begins after so many milliseconds at `open_above` and ends after so many below `close_below`."""

    open_above: float = 0.85
    close_below: float = 0.35
    open_ms: int = 200
    close_ms: int = 480
    # Words of a segment count from the first moment that looks somewhat like speech: a doubt may not cost a word.
    heard_above: float = 0.7
    heard_ms: int = 160
    # The network knows of a word's first sound so much after it.
    late_ms: int = 40
    frame_ms: float = 40.0

    def __post_init__(self) -> None:
        if not (0 < self.close_below <= self.open_above < 1 and 0 < self.heard_above <= self.open_above):
            raise ValueError("activity needs a close_below and a heard_above that are no higher than open_above")

    def frames(self, milliseconds: int) -> int:
        """So many milliseconds in frames, at least one."""
        return max(1, math.ceil(milliseconds / self.frame_ms))


class Track:
    """Follows the activity of one segment."""

    def __init__(self, rule: ActivityRule, speaking: bool = False) -> None:
        self.speaking = speaking
        # Until it is, words found in the segment are hallucinations of music or keys.
        self.opened = speaking
        self.quiet = 0  # frames since the last active one
        self._rule = rule
        self._frames = 0
        self._high = 0  # frames in a row that are high enough to open
        self._hinting = 0  # frames in a row that are high enough to hear words
        self._rising = 0  # the first frame of the run that has not been quiet since

    def read(self, probabilities: Sequence[float]) -> list[Change]:
        """Take in the probabilities of the next frames; returns what changed."""
        changes = []
        for probability in probabilities:
            change = self._read(probability)
            if change:
                changes.append(change)
        return changes

    def end(self) -> Change | None:
        """The segment ended in a pause: speech that went on until then ended with its last active frame."""
        if not self.speaking:
            return None
        self.speaking = False
        return Change(False, self._frames - self.quiet)

    def _read(self, probability: float) -> Change | None:
        rule = self._rule
        self._frames += 1
        active = probability >= rule.close_below
        if active and self.quiet:
            self._rising = self._frames - 1
        self.quiet = 0 if active else self.quiet + 1
        self._high = self._high + 1 if probability >= rule.open_above else 0
        self._hinting = self._hinting + 1 if probability >= rule.heard_above else 0
        self.opened = self.opened or self._hinting >= rule.frames(rule.heard_ms)
        if not self.speaking and self._high >= rule.frames(rule.open_ms):
            self.speaking = True
            return Change(True, max(self._rising - round(rule.late_ms / rule.frame_ms), 0))
        if self.speaking and self.quiet >= rule.frames(rule.close_ms):
            return self.end()
        return None
