"""How long speakers pause after a word, by the mark that follows it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.mark_network import PAUSES

Floats = npt.NDArray[np.float64]

# From the recogniser's times in 147 recordings of LJSpeech and LibriSpeech. Questions have the figures of full stops.
# Rows: no mark, comma, full stop, question mark. Columns: the pauses that the network tells apart, shortest first.
READ_ALOUD: Floats = np.array(
    [
        [0.82, 0.127, 0.025, 0.017, 0.009, 0.0015, 0.0005],
        [0.143, 0.131, 0.155, 0.28, 0.256, 0.033, 0.002],
        [0.02, 0.01, 0.023, 0.047, 0.16, 0.37, 0.37],
        [0.02, 0.01, 0.023, 0.047, 0.16, 0.37, 0.37],
    ]
)
LONG = PAUSES - 2
"""A segment may end at a pause with this number or a higher one."""


def hesitant(statistics: Floats, share: float) -> Floats:
    """Return the statistics of somebody who also pauses at any place, as after a comma."""
    return (1 - share) * statistics + share * statistics[1]
