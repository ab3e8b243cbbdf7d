"""The steps of a model: which one it takes for a usual one, and how many of its frames are computed together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from streamer.base.limits import STEP_MS, STEPS_MS, WHOLE_MS
from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.stream_options import step_for
from workshop.data.corpus import CorpusError


def add_step_option(parser: argparse.ArgumentParser, purpose: str = "length of a step") -> None:
    """Add `--step-ms`. Which steps there are, only the model says: `own_step`."""
    usual = ", ".join(map(str, STEPS_MS))
    parser.add_argument(
        "--step-ms",
        type=int,
        default=STEP_MS,
        help=f"{purpose} (%(default)s): one of the model, or {usual}, for which it takes its nearest",
    )


def own_step(wanted_ms: int, step_ms: Sequence[int]) -> int:
    """Return the step that a model with these steps takes, as in a session. CorpusError if it has none for this."""
    own = step_for(wanted_ms, step_ms)
    if own not in step_ms:
        raise CorpusError(f"the model has no step of {wanted_ms} ms, but those of {', '.join(map(str, step_ms))} ms")
    return own


def frames_together(description: ModelDescription, step_ms: int) -> int:
    """Return how many frames see one another in a step of the model, or in its second pass (`WHOLE_MS`)."""
    if step_ms == WHOLE_MS:
        return description.encoder.whole_frames
    return description.frames_of(own_step(step_ms, description.step_ms))
