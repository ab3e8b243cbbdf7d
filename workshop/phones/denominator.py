"""The denominator of CTC-CRF: a sum over all label sequences and all of their CTC paths, weighted by an n-gram.

Every frame t has a potential y(t, k) for every unit k. Unit 0 is the blank. The n-gram gives each label sequence l a
probability P(l). The denominator is

    Z = sum over l, and over the paths of l, of  P(l) * product over t of y(t, unit of the path at t)

After each frame, a path is in one of two kinds of state. In a state of the kind `said`, the frame said the newest
label. In a state of the kind `rest`, the frame was a blank after it. A state also has a context: the last n - 1 labels.

In the next frame, a path repeats the newest label, rests, or says a new label k, which has the weight P(k | context).
The same label can only be said a second time after a rest. So the sums over all paths that are in a state with the
context c are, from one frame to the next,

    said'(c + k)  =  y(k) * (said(c + k)  +  sum over the oldest label of c of
                             P(k | c) * (rest(c) + said(c), the latter unless k is the newest label))
    rest'(c)      =  y(0) * (said(c) + rest(c))

This takes one batched matrix product for each frame. The sums are scaled in each frame, so that they add up to 1. The
gradient of ln Z is the expected number of times that a path has each unit in each frame. It is found by the same
recursion from the last frame to the first. `RecordedDenominator` makes it faster on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from workshop.phones.phone_ngram import PhoneNgram

_LEAST = 1e-30


class NgramTables:
    """An n-gram in the form that the recursions need, on a device.

    A context has the labels u1 (the oldest) to u(n-1) (the newest). All labels but u1 together are called its group. A
    context is indexed by its group and by u1.
    """

    def __init__(self, ngram: PhoneNgram, device: torch.device) -> None:
        units = ngram.units
        weights = ngram.weights.to(device, torch.float32)
        if ngram.order == 2:  # a bigram is treated as a trigram that ignores the oldest label
            weights = weights.expand(units, units, units + 1)
        self.units = units
        self.order = weights.ndim
        self.log_weights = weights.clamp(min=_LEAST).log()
        by_group = weights.movedim(0, -2).reshape(-1, units, units + 1)  # [group, oldest, next]
        groups = torch.arange(len(by_group), device=device)
        newest = groups % units
        other = by_group[..., :units].clone()
        other[..., 0] = 0.0
        self.again = other[groups, :, newest].clone()  # [group, oldest]: the newest label once more
        other[groups, :, newest] = 0.0
        self.other = other  # [group, oldest, next]: any other label
        self.other_back = other.mT.contiguous()
        self.end = by_group[..., units].contiguous()  # [group, oldest]
        self.recorded = RecordedDenominator(self.totals_and_occupations)

    @property
    def groups(self) -> int:
        """The number of groups: of contexts without their oldest label."""
        return len(self.end)

    def totals_and_occupations(self, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln Z [batch], and how often a path has each unit in each frame [batch, frames, units]."""
        forward = _Forward.run(emissions, lengths, self)
        return forward.total, _occupations(forward, self)

    def shifted(self, entered: Tensor) -> Tensor:
        """Reindex values by context and next label as values by the context that follows.

        They are [group, batch, next label] before, and [group, batch, oldest] afterwards.
        """
        units, batch = self.units, entered.shape[1]
        return entered.view(units, -1, batch, units).permute(1, 3, 2, 0).reshape(self.groups, batch, units)

    def followed(self, contexts: Tensor) -> Tensor:
        """Do the reverse of `shifted`: give each context and next label the value of the context that follows."""
        units, batch = self.units, contexts.shape[1]
        return contexts.view(-1, units, batch, units).permute(3, 0, 2, 1).reshape(self.groups, batch, units)

    def newest_again(self, entered: Tensor) -> Tensor:
        """Return those values of [group, batch, next label] where the next label is the newest one again.

        It is a view [rest of the group, batch, newest].
        """
        return entered.view(-1, self.units, entered.shape[1], self.units).diagonal(dim1=1, dim2=3)

    def by_newest(self, contexts: Tensor) -> Tensor:
        """Return [group, batch, oldest] as a view [rest of the group, newest, batch, oldest]."""
        return contexts.view(-1, self.units, *contexts.shape[1:])


def log_denominator(emissions: Tensor, lengths: Tensor, tables: NgramTables) -> Tensor:
    """Return ln Z of each row [batch] from log-potentials [batch, frames, units], with its gradient."""
    total: Tensor = _LogDenominator.apply(emissions, lengths, tables)
    return total


class _LogDenominator(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, emissions: Tensor, lengths: Tensor, tables: NgramTables) -> Tensor:
        compute = tables.recorded if emissions.is_cuda else tables.totals_and_occupations
        total, occupations = compute(emissions.detach().float(), lengths)
        ctx.save_for_backward(occupations)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (occupations,) = ctx.saved_tensors
        return occupations * gradients[0][:, None, None], None, None


@dataclass(frozen=True)
class _Forward:
    """The results of the forward recursion: sums of the states by frame [frames, groups, batch, oldest], and ln Z."""

    potentials: Tensor  # [frames, units, batch, 1]
    lengths: Tensor
    said: Tensor
    rest: Tensor
    total: Tensor

    @classmethod
    def run(cls, emissions: Tensor, lengths: Tensor, tables: NgramTables) -> _Forward:
        batch, frames, units = emissions.shape
        lengths = lengths.to(emissions.device)
        # The greatest potential of each frame becomes 1, so that no product becomes zero. ln Z gets it back at the end.
        highest = emissions.amax(-1)
        potentials = (emissions - highest.unsqueeze(-1)).exp().permute(1, 2, 0).contiguous().unsqueeze(-1)
        said = emissions.new_empty(frames, tables.groups, batch, units)
        rest = torch.empty_like(said)
        scales = emissions.new_empty(frames, batch)
        before_said = emissions.new_zeros(tables.groups, batch, units)
        before_rest = torch.zeros_like(before_said)
        before_rest[0, :, 0] = 1.0  # the context of the beginning
        again = tables.again.unsqueeze(1)
        for time in range(frames):
            either = before_said + before_rest
            entered = torch.bmm(either, tables.other)
            tables.newest_again(entered).add_(tables.by_newest(before_rest * again).sum(-1).transpose(1, 2))
            torch.add(tables.shifted(entered), before_said, out=said[time])
            tables.by_newest(said[time]).mul_(potentials[time])
            torch.mul(either, potentials[time, 0], out=rest[time])
            scale = (said[time].sum((0, 2)) + rest[time].sum((0, 2))).clamp(min=_LEAST)
            said[time].div_(scale.view(1, -1, 1))
            rest[time].div_(scale.view(1, -1, 1))
            scales[time] = scale
            before_said, before_rest = said[time], rest[time]
        rows = torch.arange(batch, device=emissions.device)
        last = said[lengths - 1, :, rows] + rest[lengths - 1, :, rows]  # [batch, group, oldest]
        inside = torch.arange(frames, device=emissions.device).unsqueeze(1) < lengths
        ended = (last * tables.end).sum((1, 2)).clamp(min=_LEAST).log()
        return cls(potentials, lengths, said, rest, ((scales.log() + highest.T) * inside).sum(0) + ended)


def _occupations(forward: _Forward, tables: NgramTables) -> Tensor:
    """Return the expected number of times that a path has each unit in each frame: [batch, frames, units]."""
    frames, groups, batch, units = forward.said.shape
    occupations = forward.said.new_empty(frames, units, batch)
    again = tables.again.unsqueeze(1)
    end = tables.end.unsqueeze(1)
    later_said = end.expand(groups, batch, units)
    later_rest = later_said
    for time in range(frames - 1, -1, -1):
        if time < frames - 1:
            potentials = forward.potentials[time + 1]
            said = (tables.by_newest(later_said) * potentials).view(groups, batch, units)
            followed = tables.followed(said)
            either = torch.bmm(followed, tables.other_back).addcmul_(later_rest, potentials[0])
            repeated = tables.newest_again(followed).transpose(1, 2).reshape(groups, batch, 1)
            # This is the last frame of these rows, so their backward recursion begins here, with the end's weights.
            ends = (forward.lengths == time + 1).view(1, -1, 1)
            later_rest = torch.where(ends, end, torch.addcmul(either, repeated, again))
            later_said = torch.where(ends, end, either.add_(said))
        occupations[time] = tables.by_newest(forward.said[time] * later_said).sum((0, 3))
        occupations[time, 0] = (forward.rest[time] * later_rest).sum((0, 2))
        # The numbers of a frame add up to 1. Dividing by the same factor keeps the backward sums near 1.
        scale = occupations[time].sum(0).clamp(min=_LEAST)
        occupations[time].div_(scale)
        later_said = later_said / scale.view(1, -1, 1)
        later_rest = later_rest / scale.view(1, -1, 1)
    inside = torch.arange(frames, device=occupations.device).unsqueeze(1) < forward.lengths
    return (occupations * inside.unsqueeze(1)).permute(2, 0, 1).contiguous()


# The denominator of CTC-CRF on a GPU: its work is recorded once for each size of batches, and played for all of them.

Compute = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Returns ln Z [rows] and the occupations [rows, frames, units] from log-potentials and lengths."""

FRAMES = 64
GROWTH = 1.25
FEWEST_ROWS = 8


def padded_size(rows: int, frames: int) -> tuple[int, int]:
    """Return the smallest of the few sizes that hold this many rows and frames."""
    enough = FEWEST_ROWS
    while enough < rows:
        enough = int(enough * GROWTH)
    return enough, -(-frames // FRAMES) * FRAMES


class RecordedDenominator:
    """Computes denominators with a recording for each size."""

    def __init__(self, compute: Compute, record: Callable[[Compute, Tensor, Tensor], Recording] | None = None) -> None:
        self._compute = compute
        self._record = record or Recording
        self._recordings: dict[tuple[int, int], Recording] = {}

    def __call__(self, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln Z and the occupations, as `compute` does."""
        rows, frames = emissions.shape[:2]
        size = padded_size(rows, frames)
        # Rows of one frame are added, and frames after the end of the other rows.
        padding = (0, 0, 0, size[1] - frames, 0, size[0] - rows)
        emissions = functional.pad(emissions, padding)
        lengths = functional.pad(lengths, (0, size[0] - rows), value=1)
        if size not in self._recordings:
            self._recordings[size] = self._record(self._compute, emissions, lengths)
        total, occupations = self._recordings[size].play(emissions, lengths)
        return total[:rows].clone(), occupations[:rows, :frames].clone()


class Recording:
    """The work for one size, as a CUDA graph. All recordings share their memory, so a result must be copied at once."""

    _memory: ClassVar[Any] = None

    def __init__(self, compute: Compute, emissions: Tensor, lengths: Tensor) -> None:
        self._emissions, self._lengths = emissions.clone(), lengths.clone()
        # The first call of an operation may prepare something that cannot be recorded.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            compute(self._emissions[:, :2].contiguous(), self._lengths.clamp(max=2))
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        if Recording._memory is None:
            Recording._memory = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(self._graph, pool=Recording._memory):
            self._results = compute(self._emissions, self._lengths)

    def play(self, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the results for other values. They are overwritten by the next recording that plays."""
        self._emissions.copy_(emissions)
        self._lengths.copy_(lengths)
        self._graph.replay()
        return self._results


# The CTC-CRF loss (Xiang and Ou 2019): CTC, normalised over all label sequences.


@dataclass(frozen=True)
class SequenceLosses:
    """Sums over the rows of a batch: -ln p(l | x) is `ctc + denominator + prior`."""

    ctc: Tensor
    denominator: Tensor
    prior: Tensor

    def mixed(self, ctc_share: float) -> Tensor:
        """Return a mixture of plain CTC, with this share, and CTC-CRF without the prior, which is a constant."""
        return self.ctc + (1 - ctc_share) * self.denominator


def sequence_losses(
    emissions: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor, tables: NgramTables
) -> SequenceLosses:
    """Return the losses of log-potentials [batch, frames, units]. `targets` are joined to one list.

    A row whose labels do not fit into its frames is not counted.
    """
    ctc = functional.ctc_loss(
        emissions.transpose(0, 1), targets, lengths, target_lengths, reduction="none", zero_infinity=True
    )
    fits = ctc.detach() > 0  # zero_infinity has made the loss of other rows zero
    denominator = log_denominator(emissions, lengths, tables)
    prior = -log_weights(targets, target_lengths, tables)
    return SequenceLosses(ctc.sum(), (denominator * fits).sum(), (prior * fits).sum())


def log_weights(targets: Tensor, lengths: Tensor, tables: NgramTables) -> Tensor:
    """Return the natural log of the n-gram's weight for each target sequence [batch]."""
    rows = pad_sequence(list(targets.split(lengths.tolist())), batch_first=True)
    rows = functional.pad(rows, (tables.order - 1, 1))
    places = torch.arange(rows.shape[1] - tables.order + 1, device=rows.device)
    ends = lengths.to(rows.device).unsqueeze(1)
    windows = rows.unfold(1, tables.order, 1).clone()  # [batch, places, order]
    windows[..., -1] = windows[..., -1].masked_fill(places == ends, tables.units)
    weights = tables.log_weights[windows.unbind(-1)]
    return (weights * (places <= ends)).sum(1)
