"""The schedule of a run: its losses, its learning rate and its share of synthetic speech at each step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A warm start counted in steps, stages of losses, and a fall of the rate over the last share of the plan.

    The phones first learn the aligned frames, then CTC, then (from `crf_from` on) CTC-CRF. Each takes over from the
    one before it over `crossfade_steps`. From `errors_from` on the words expected to be wrong are counted on top of it.
    """

    minutes: float = 0.0
    steps: int | None = None
    """The plan ends after these steps. Without them it ends after these minutes."""

    rate: float = 2.5e-3
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

    synthetic_share: float = 0.3
    synthetic_until: float = 0.5
    average: float = 0.999
    clip: float = 2.0

    def progress(self, step: int, seconds: float) -> float:
        """The share of the plan that is used up."""
        if self.steps is not None:
            return step / self.steps
        return seconds / (60 * self.minutes)

    def learning_rate(self, step: int, progress: float) -> float:
        """The learning rate: it rises over the first steps, is constant, and then falls to zero."""
        return self.rate * min(1.0, (step + 1) / self.rise_steps, max(1 - progress, 0.0) / self.fall)

    def synthetic(self, progress: float) -> float:
        """The share of synthetic speech: it widens the vocabulary at first, and real speech has the last word."""
        return self.synthetic_share if progress < self.synthetic_until else 0.0

    def frame_share(self, step: int) -> float:
        """The share of the frame-wise loss on aligned phones: all of it first, then CTC takes over."""
        if not self.aligned_steps:
            return 0.0
        return min(max((self.aligned_steps + self.crossfade_steps - step) / self.crossfade_steps, 0.0), 1.0)

    def denominator_share(self, step: int) -> float:
        """How much of CTC-CRF's denominator counts: nothing first, in the end all but CTC's share."""
        if self.crf_from is None or step < self.crf_from:
            return 0.0
        # A run that begins with CTC-CRF has weights that were trained with it, or that adapt within a few steps.
        risen = (step - self.crf_from + 1) / self.crossfade_steps if self.crf_from else 1.0
        return (1 - self.ctc_share) * min(risen, 1.0)

    def counts_errors(self, step: int) -> bool:
        """Whether words expected to be wrong are counted in this step."""
        return self.errors_from is not None and step >= self.errors_from


GOING_ON = Schedule(rate=1.25e-3, rise_steps=60, aligned_steps=0, short_steps=0)
"""A run that starts from trained weights."""
