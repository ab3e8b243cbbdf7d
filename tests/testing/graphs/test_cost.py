"""The cost of a public model, measured with a small one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamer.testing.graphs.cost import cost_of_reference, cost_of_service
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder
from tests.samples import pcm


def test_both_are_measured(tmp_path: Path) -> None:
    """The service and sherpa-onnx take some processor time and memory for the same speech."""
    folder, speech = make_ctc_folder(tmp_path), np.frombuffer(pcm("quilter.ogg", 1), "<i2")
    ours, theirs = cost_of_service(folder, speech, 2), cost_of_reference(folder, speech, 2)
    assert min(ours.recogniser, ours.bridge, theirs.recogniser) > 0
    assert ours.whole == ours.recogniser + ours.bridge
    assert all(20e6 < cost.memory < 1e9 for cost in (ours, theirs))
