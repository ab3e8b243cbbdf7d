"""The schedule of a run: the losses, the learning rate and the share of synthetic speech at each step."""

from __future__ import annotations

from dataclasses import dataclass


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
