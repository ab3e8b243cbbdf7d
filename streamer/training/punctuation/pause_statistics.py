"""How long speakers pause after a word, by the mark that follows it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.mark_network import PAUSES

Floats = npt.NDArray[np.float64]

# Rows: no mark, comma, full stop, question mark. Columns: the pauses that the network tells apart, shortest first.
READ_ALOUD: Floats = np.array(
    [
        [0.86, 0.08, 0.03, 0.012, 0.01, 0.005, 0.003],
        [0.25, 0.10, 0.12, 0.16, 0.17, 0.12, 0.08],
        [0.05, 0.03, 0.04, 0.08, 0.17, 0.25, 0.38],
        [0.05, 0.03, 0.04, 0.08, 0.17, 0.25, 0.38],
    ]
)
LONG = PAUSES - 2
"""The numbers of pauses from which on a segment may end."""


def hesitant(statistics: Floats, share: float) -> Floats:
    """The statistics of somebody who also pauses at any place, as after a comma."""
    return (1 - share) * statistics + share * statistics[1]
