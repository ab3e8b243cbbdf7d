"""The losses of the model's heads on a batch, with the weights of the schedule."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from streamer.engine.models.streaming_model import Emissions
from streamer.training.acoustic.batches import UNLABELLED, Batch
from streamer.training.acoustic.consistency import disagreement
from streamer.training.acoustic.schedule import Schedule
from streamer.training.phones.ctc_crf import sequence_losses
from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.expected_errors import AlternativeSource, expected_errors
from streamer.training.teaching.teacher import HEAD as TAUGHT_HEAD
from streamer.training.teaching.teacher import Lesson, distance

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
            apart = distance(lesson.emissions, emissions[TAUGHT_HEAD], batch.lengths)
            share = lesson.weight / batch.target_lengths[TAUGHT_HEAD].sum()
            result.losses["taught"] = HEAD_WEIGHTS[TAUGHT_HEAD] * share * apart
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
