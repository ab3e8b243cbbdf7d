"""Prepares the emissions of a step for the beam: which frames matter to which streams, and their likeliest units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from streamer.engine.search.search import BLANK


@dataclass
class BatchFrame:
    """One frame of the streams to which it matters. The first dimension of every tensor counts these streams."""

    probabilities: Tensor  # [streams, units]
    blank: Tensor  # [streams, 1]
    boundary: Tensor  # [streams, 1]
    units: Tensor  # [streams, 1, tokens + 1]: the likeliest phones
    likely: Tensor  # [streams, 1, tokens + 1]: their probabilities; the last column is zero
    ranks: Tensor  # [streams, units]: the column of each unit above; the last column for all other units
    times: Tensor  # [streams, 1]: the number of this frame within its segment
    after_blanks: Tensor | None  # [streams, 1]: whether blank frames were skipped right before it
    ending: list[int]  # the streams in which a word may end here


@dataclass
class StepFrames:
    """The frames of a step. `order` sorts the streams so that each frame concerns the first few of them.

    A frame in which only the blank is likely does nothing but make all paths end in a blank. On the CPU, where values
    can be inspected without waiting for a device, such frames are skipped. That saves a third of the work in speech
    and all of it in silence.
    """

    order: Tensor  # [batch]: the row of the emissions of each stream
    frames: list[BatchFrame]
    ends_in_blanks: Tensor  # [batch, 1]: whether frames were skipped at the end of the step
    scale: Tensor  # [batch]: natural log of the probability of the skipped frames


@dataclass(frozen=True)
class EmissionReader:
    """Selects the frames and units that a beam looks at, by the thresholds of `BeamOptions`."""

    phones: Tensor  # the units that words are made of
    columns: Tensor  # the numbers of the likeliest ones
    boundary: int
    tokens: int
    blank_penalty: float
    blank_ceiling: float
    boundary_floor: float
    inspecting: bool  # whether to inspect values: it saves work on the CPU, but means waiting on other devices

    def read(self, log_probabilities: Tensor, before: Tensor) -> StepFrames:
        """Read a step [batch, frames, units]; `before` counts the frames that each stream has read before it."""
        batch, count, _ = log_probabilities.shape
        device = log_probabilities.device
        blank_only = log_probabilities[:, :, BLANK].exp() >= self.blank_ceiling
        scores = log_probabilities.to(torch.float64, copy=True)
        blank_scores = scores[:, :, BLANK]
        if self.blank_penalty:
            blank_scores -= self.blank_penalty
        skipped = (blank_scores * blank_only).sum(1)
        if not self.inspecting:
            order = torch.arange(batch, device=device)
            only_blank = torch.full_like(scores[0, 0], -torch.inf)
            only_blank[BLANK] = 0.0
            scores = torch.where(blank_only.unsqueeze(2), only_blank, scores)
            times = before.unsqueeze(1) + torch.arange(count, device=device)
            frames = self._frames(scores, times, [batch] * count, [None] * count)
            return StepFrames(order, frames, order.unsqueeze(1) < 0, skipped)
        kept_frames = [[frame for frame, skip in enumerate(row) if not skip] for row in blank_only.tolist()]
        rows = sorted(range(batch), key=lambda row: -len(kept_frames[row]))
        kept_frames = [kept_frames[row] for row in rows]
        longest = len(kept_frames[0])
        order = torch.tensor(rows)
        last = torch.tensor([[(row or [-1])[-1] < count - 1] for row in kept_frames])
        if batch > 1:
            skipped = skipped.index_select(0, order)
        if not longest:
            return StepFrames(order, [], last, skipped)
        # Indices by numpy, which takes a fraction of the time of torch for so few of them.
        kept = np.array([row + [0] * (longest - len(row)) for row in kept_frames])
        chosen = torch.from_numpy(scores.numpy()[np.array(rows)[:, None], kept])
        times = torch.from_numpy(before.numpy()[rows][:, None] + kept)
        sizes = [sum(len(row) > index for row in kept_frames) for index in range(longest)]
        gaps = [
            [row[index] > (row[index - 1] if index else -1) + 1 for row in kept_frames[:size]]
            for index, size in enumerate(sizes)
        ]
        after_blanks = [torch.tensor(flags).unsqueeze(1) if any(flags) else None for flags in gaps]
        return StepFrames(order, self._frames(chosen, times, sizes, after_blanks), last, skipped)

    def _frames(
        self, scores: Tensor, times: Tensor, sizes: list[int], after_blanks: list[Tensor | None]
    ) -> list[BatchFrame]:
        probabilities = scores.exp()
        likely, indices = probabilities.index_select(2, self.phones).topk(self.tokens)
        units = self.phones.take(indices)
        # The extra last column takes the values of all units that are not among the likeliest.
        ranks = torch.full_like(probabilities, self.tokens, dtype=torch.int64)
        ranks.scatter_(2, units, self.columns.expand_as(units))
        likely, units = pad(likely, (0, 1)).unsqueeze(2), pad(units, (0, 1)).unsqueeze(2)
        blank, boundary = probabilities[:, :, BLANK, None], probabilities[:, :, self.boundary]
        ends = boundary >= self.boundary_floor
        boundary = (boundary * ends).unsqueeze(2)
        times = times.unsqueeze(2)
        found = ends.T.tolist() if self.inspecting else [[True] * len(ends)] * len(sizes)
        return [
            BatchFrame(
                probabilities=probabilities[:size, index],
                blank=blank[:size, index],
                boundary=boundary[:size, index],
                units=units[:size, index],
                likely=likely[:size, index],
                ranks=ranks[:size, index],
                times=times[:size, index],
                after_blanks=after_blanks[index],
                ending=[row for row, may in enumerate(found[index][:size]) if may],
            )
            for index, size in enumerate(sizes)
        ]
