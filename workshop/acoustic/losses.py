"""What a step of training minimises: the losses of the heads, of two views and of a teacher, and their schedule."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from streamer.engine.acoustics.bundle_files import WEIGHTS_FILE
from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.networks.acoustic_network import AcousticNetwork
from workshop.acoustic.batches import UNLABELLED, Batch
from workshop.phones.denominator import NgramTables, sequence_losses
from workshop.phones.expected_errors import AlternativeSource, expected_errors
from workshop.weights import faster

HEAD_WEIGHTS = {"phones": 0.6, "characters": 0.2, "phones_middle": 0.2}


@dataclass(frozen=True)
class BatchLosses:
    """The weighted losses of a batch by name, and other figures. Training minimises the sum of the losses."""

    losses: dict[str, Tensor]
    figures: dict[str, Tensor]

    @property
    def total(self) -> Tensor:
        """The sum of all losses, which is minimised."""
        return torch.stack(list(self.losses.values())).sum()


class HeadLosses:
    """Computes the losses of each head: frame-wise, CTC and CTC-CRF.

    The schedule may add the consistency loss, the expected number of wrong words, and the distance from a teacher.
    """

    def __init__(
        self,
        schedule: Schedule,
        ngram: NgramTables | None = None,
        crf_heads: Collection[str] = ("phones",),
        alternatives: AlternativeSource | None = None,
    ) -> None:
        """`ngram` is needed for CTC-CRF, with which `crf_heads` learn; `alternatives` for the expected wrong words."""
        self._schedule = schedule
        self._ngram = ngram
        self._crf_heads = crf_heads
        self._alternatives = alternatives

    def __call__(self, emissions: Emissions, batch: Batch, step: int, lesson: Lesson | None = None) -> BatchLosses:
        """Return all losses of this step. `lesson` has a teacher's probabilities for the batch."""
        result = BatchLosses({}, {})
        for head, weight in HEAD_WEIGHTS.items():
            kind = head.removesuffix("_middle")
            frames = self._schedule.frame_share(step) if kind == "phones" else 0.0
            if frames < 1:
                denominator = self._schedule.denominator_share(step) if head in self._crf_heads else 0.0
                result.losses[head] = (
                    weight * (1 - frames) * self._sequence(head, emissions, batch, denominator, result)
                )
            if frames > 0:
                labelled = functional.nll_loss(
                    emissions[head].flatten(0, 1), batch.labels.flatten(), ignore_index=UNLABELLED
                )
                result.losses[f"{head}_frames"] = weight * frames * labelled
            if self._schedule.consistency:
                apart = disagreement(emissions[head], batch.lengths) / batch.target_lengths[kind].sum()
                result.losses[f"{head}_apart"] = weight * self._schedule.consistency * apart
        if self._alternatives and self._schedule.counts_errors(step):
            wrong = expected_errors(emissions["phones"], batch.lengths, batch.texts, self._alternatives)
            share = wrong / sum(len(text.split()) for text in batch.texts)
            result.figures["words_wrong"] = share.detach()
            result.losses["words"] = HEAD_WEIGHTS["phones"] * self._schedule.errors_weight * share
        if lesson:
            apart = distance(lesson.emissions, emissions[HEAD], batch.lengths)
            share = lesson.weight / batch.target_lengths[HEAD].sum()
            result.losses["taught"] = HEAD_WEIGHTS[HEAD] * share * apart
        return result

    def _sequence(
        self, head: str, emissions: Emissions, batch: Batch, denominator_share: float, result: BatchLosses
    ) -> Tensor:
        """Return the loss of whole sequences, divided by the number of units in the targets."""
        kind = head.removesuffix("_middle")
        targets, lengths = batch.targets[kind], batch.target_lengths[kind]
        if self._ngram is None or not denominator_share:
            total = functional.ctc_loss(
                emissions[head].transpose(0, 1), targets, batch.lengths, lengths, reduction="sum", zero_infinity=True
            )
            return total / lengths.sum()
        sequence = sequence_losses(emissions[head], batch.lengths, targets, lengths, self._ngram)
        # These figures do not contain the shares of the schedule, so runs can be compared by them.
        result.figures[f"{head}_ctc"] = sequence.ctc.detach() / lengths.sum()
        result.figures[f"{head}_crf"] = (sequence.ctc + sequence.denominator + sequence.prior).detach() / lengths.sum()
        return sequence.mixed(1 - denominator_share) / lengths.sum()


@dataclass(frozen=True)
class Schedule:
    """How the learning rate rises and falls, and which losses count when.

    The phones' head first learns the labels of aligned frames, then CTC, and from `crf_from` on CTC-CRF. Each loss
    replaces the one before it gradually, over `crossfade_steps`. From `errors_from` on, the expected number of wrong
    words is added.
    """

    minutes: float = 0.0
    steps: int | None = None
    """The plan ends after these steps. Without them it ends after these minutes."""

    rate: float = 2.5e-3
    body_rate: float = 1.0
    """The rate of all weights but the heads, as a share: lower where only the heads are new."""

    rise_steps: int = 150
    fall: float = 0.35
    aligned_steps: int = 200
    crossfade_steps: int = 60
    short_steps: int = 300
    short_seconds: float = 5.0
    crf_from: int | None = None
    ctc_share: float = 0.2
    """How much of plain CTC stays when CTC-CRF has taken over."""

    errors_from: int | None = None
    errors_weight: float = 1.0
    """The weight of a word expected to be wrong, relative to the loss of its phones."""

    consistency: float = 0.0
    """The weight of the disagreement of two masked views of each batch. Without it there is one view."""

    usual_last: float = 0.0
    """The share of the plan, at its end, that has usual conditions, whatever those before were."""

    synthetic_share: float = 0.3
    synthetic_until: float = 0.5
    average: float = 0.999
    clip: float = 2.0

    def progress(self, step: int, seconds: float) -> float:
        """Return the share of the plan that is over."""
        if self.steps is not None:
            return step / self.steps
        return seconds / (60 * self.minutes)

    def learning_rate(self, step: int, progress: float) -> float:
        """Return the learning rate. It rises over the first steps, stays constant, and then falls to zero."""
        return self.rate * min(1.0, (step + 1) / self.rise_steps, max(1 - progress, 0.0) / self.fall)

    def synthetic(self, progress: float) -> float:
        """Return the share of synthetic speech. It widens the vocabulary at first; the end of a run has real speech."""
        return self.synthetic_share if progress < self.synthetic_until else 0.0

    def frame_share(self, step: int) -> float:
        """Return the share of the frame-wise loss on aligned phones. It is 1 at first, and CTC replaces it later."""
        if not self.aligned_steps:
            return 0.0
        return min(max((self.aligned_steps + self.crossfade_steps - step) / self.crossfade_steps, 0.0), 1.0)

    def denominator_share(self, step: int) -> float:
        """Return the weight of CTC-CRF's denominator: 0 at first, and at the end 1 less the share of plain CTC."""
        if self.crf_from is None or step < self.crf_from:
            return 0.0
        # A run that begins with CTC-CRF has weights that were trained with it, or adapts within a few steps.
        risen = (step - self.crf_from + 1) / self.crossfade_steps if self.crf_from else 1.0
        return (1 - self.ctc_share) * min(risen, 1.0)

    def is_usual(self, progress: float) -> bool:
        """Return whether the part of the plan with usual conditions has begun."""
        return progress >= 1 - self.usual_last

    def counts_errors(self, step: int) -> bool:
        """Return whether the expected number of wrong words counts in this step."""
        return self.errors_from is not None and step >= self.errors_from


GOING_ON = Schedule(rate=1.25e-3, rise_steps=60, aligned_steps=0, short_steps=0)
"""A run that starts from trained weights."""

NEW_HEADS = Schedule(body_rate=0.4)
"""A run whose encoder has trained weights of others, and new heads."""


# The consistency loss (CR-CTC, Yao et al. 2024): two differently masked views of the same audio must agree.

VIEWS = 2


def doubled(batch: Batch) -> Batch:
    """Return the batch for both views. Its audio stays as it is, because the views differ only in their masks."""
    return Batch(
        batch.samples,
        batch.lengths.repeat(VIEWS),
        {head: target.repeat(VIEWS) for head, target in batch.targets.items()},
        {head: length.repeat(VIEWS) for head, length in batch.target_lengths.items()},
        batch.labels.repeat(VIEWS, 1),
        batch.texts * VIEWS,
        batch.seconds,
    )


def disagreement(emissions: Tensor, lengths: Tensor) -> Tensor:
    """Return the loss of log-probabilities [2 * rows, frames, units], summed over all frames."""
    first, second = emissions.chunk(VIEWS)
    inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths.chunk(VIEWS)[0].unsqueeze(1)
    both = _divergence(second.detach(), first) + _divergence(first.detach(), second)
    return 0.5 * (both * inside).sum()


def _divergence(target: Tensor, output: Tensor) -> Tensor:
    return (target.exp() * (target - output)).sum(-1)


# A trained model as a teacher: beside the transcripts, another model learns how sure it is of every phone.

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
        self._model = AcousticNetwork.load(self._bundle, self._device)

    def _written_at(self) -> int:
        weights = self._bundle / WEIGHTS_FILE
        return weights.stat().st_mtime_ns if weights.is_file() else 0

    @property
    def frame_samples(self) -> int:
        """The samples of its frames."""
        return self._model.frame_samples

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
