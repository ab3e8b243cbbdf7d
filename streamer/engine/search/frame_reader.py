"""What a step's emissions say to a search: which frames matter to which streams, and the likely units of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from streamer.engine.search.search import BLANK


@dataclass
class Frame:
    """One frame of those streams to which it matters; every tensor begins with them."""

    probabilities: Tensor  # [streams, units]
    blank: Tensor  # [streams, 1]
    boundary: Tensor  # [streams, 1]
    units: Tensor  # [streams, 1, tokens + 1]: the likeliest phones
    likely: Tensor  # [streams, 1, tokens + 1]: their probabilities; zero in the last column
    ranks: Tensor  # [streams, units]: the column of each unit; the last for those that are not likely
    times: Tensor  # [streams, 1]: frames of the segment before it
    rested: Tensor | None  # [streams, 1]: whether frames that are blank and nothing else lie right before it
    ending: list[int]  # the streams in which a word may end


@dataclass
class StepFrames:
    """A step's frames, each with the first so many streams in the order given; a frame has no more than the one before.

    A frame that is blank and nothing else only makes the paths of every hypothesis end in a blank. Where that can be
    looked at without waiting, on the CPU, such frames are left out: in speech a third of the work, in silence all.
    """

    order: Tensor  # [batch]: the row of the emissions of each stream
    frames: list[Frame]
    resting: Tensor  # [batch, 1]: whether the step ends with frames that were left out
    scale: Tensor  # [batch]: natural log of the probability of the frames left out


@dataclass(frozen=True)
class Reader:
    """Reads emissions: how many of which units, and what counts as certain."""

    phones: Tensor  # the units that words are made of
    boundary: int
    tokens: int
    blank_penalty: float
    blank_ceiling: float
    boundary_floor: float
    looking: bool  # whether values may be looked at: on the CPU that saves work, elsewhere it means waiting

    def read(self, log_probabilities: Tensor, before: Tensor) -> StepFrames:
        """A step [batch, frames, units] of streams that have read so many frames before it."""
        batch, count, _ = log_probabilities.shape
        device = log_probabilities.device
        quiet = log_probabilities[:, :, BLANK].exp() >= self.blank_ceiling
        scores = log_probabilities.to(torch.float64, copy=True)
        scores[:, :, BLANK] -= self.blank_penalty
        lost = (scores[:, :, BLANK] * quiet).sum(1)
        if not self.looking:
            order = torch.arange(batch, device=device)
            nothing_else = torch.full_like(scores[0, 0], -torch.inf)
            nothing_else[BLANK] = 0.0
            scores = torch.where(quiet.unsqueeze(2), nothing_else, scores)
            times = before.unsqueeze(1) + torch.arange(count, device=device)
            frames = self._frames(scores, times, [batch] * count, [None] * count)
            return StepFrames(order, frames, order.unsqueeze(1) < 0, lost)
        loud = [[frame for frame, still in enumerate(row) if not still] for row in quiet.tolist()]
        rows = sorted(range(batch), key=lambda row: -len(loud[row]))
        loud = [loud[row] for row in rows]
        longest = len(loud[0])
        order = torch.tensor(rows)
        kept = torch.tensor([row + [0] * (longest - len(row)) for row in loud], dtype=torch.int64).view(batch, longest)
        sizes = [sum(len(row) > place for row in loud) for place in range(longest)]
        gaps = [
            [row[place] > (row[place - 1] if place else -1) + 1 for row in loud[:size]]
            for place, size in enumerate(sizes)
        ]
        frames = self._frames(
            scores[order.unsqueeze(1), kept], before.index_select(0, order).unsqueeze(1) + kept, sizes,
            [torch.tensor(flags).unsqueeze(1) if any(flags) else None for flags in gaps],
        )  # fmt: skip
        last = torch.tensor([[(row or [-1])[-1] < count - 1] for row in loud])
        return StepFrames(order, frames, last, lost.index_select(0, order))

    def _frames(self, scores: Tensor, times: Tensor, sizes: list[int], rested: list[Tensor | None]) -> list[Frame]:
        probabilities = scores.exp()
        likely, places = probabilities[:, :, self.phones].topk(self.tokens)
        units = self.phones[places]
        # One more column, nobody's, is where what is to be lost is written.
        ranks = torch.full_like(probabilities, self.tokens, dtype=torch.int64)
        ranks.scatter_(2, units, torch.arange(self.tokens, device=units.device).expand_as(units))
        likely, units = pad(likely, (0, 1)).unsqueeze(2), pad(units, (0, 1)).unsqueeze(2)
        boundary = probabilities[:, :, self.boundary]
        ends = boundary >= self.boundary_floor
        boundary = (boundary * ends).unsqueeze(2)
        found = ends.T.tolist() if self.looking else [[True] * len(ends)] * len(sizes)
        return [
            Frame(
                probabilities=probabilities[:size, place],
                blank=probabilities[:size, place, BLANK, None],
                boundary=boundary[:size, place],
                units=units[:size, place],
                likely=likely[:size, place],
                ranks=ranks[:size, place],
                times=times[:size, place, None],
                rested=rested[place],
                ending=[row for row, may in enumerate(found[place][:size]) if may],
            )
            for place, size in enumerate(sizes)
        ]
