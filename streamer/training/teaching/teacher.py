"""A trained model as a teacher: beside the transcripts, another model learns how sure it is of every phone.

The teacher hears the audio as it was recorded, and the other model hears it changed. p are the teacher's probabilities
for a frame, and q those of the other model. The loss is KL(p || q), summed over the frames inside the utterances. Both
see equally long chunks, so that the teacher does not see more of the future than the other model.

The teacher may be still learning, in a run of its own: its weights are read again when they are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.models.acoustic_model import WEIGHTS_FILE, AcousticModel
from streamer.training.precision import faster

HEAD = "phones"


@dataclass(frozen=True)
class Lesson:
    """A teacher's log-probabilities for a batch [rows, frames, phones], and the weight of their loss."""

    emissions: Tensor
    weight: float

    def repeated(self, times: int) -> Lesson:
        """Return the lesson for a batch that has all rows this many times."""
        return Lesson(self.emissions.repeat(times, 1, 1), self.weight)


class Teacher:
    """A trained model in a bundle. It does not learn itself."""

    def __init__(self, bundle: Path, weight: float, device: torch.device) -> None:
        """`weight` is the weight of the teacher's loss, relative to the loss of the transcripts."""
        self._bundle, self._weight, self._device = bundle, weight, device
        self._read_weights()

    def _read_weights(self) -> None:
        self._read_at = self._written_at()
        self._model = AcousticModel.load(self._bundle, self._device)

    def _written_at(self) -> int:
        weights = self._bundle / WEIGHTS_FILE
        return weights.stat().st_mtime_ns if weights.is_file() else 0

    @torch.no_grad()
    def lesson(self, samples: Tensor, lengths: Tensor, chunk_frames: int, left_frames: int | None) -> Lesson:
        """Return the lesson about audio [rows, samples] with these `lengths` in frames."""
        if self._written_at() != self._read_at:
            self._read_weights()
        with faster(self._model.device):
            emissions = self._model(samples, lengths, chunk_frames, left_frames)
        return Lesson(emissions[HEAD], self._weight)


def distance(target: Tensor, emissions: Tensor, lengths: Tensor) -> Tensor:
    """Return how far log-probabilities are from those of the teacher, summed over all frames."""
    inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths.unsqueeze(1)
    return ((target.exp() * (target - emissions)).sum(-1) * inside).sum()
