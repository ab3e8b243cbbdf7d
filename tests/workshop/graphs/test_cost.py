"""The cost of a public model, measured with a small one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.samples import pcm
from workshop.graphs.cost import cost_of_reference, cost_of_service
from workshop.graphs.engine_cost import cost_of_engine
from workshop.graphs.exact_icefall import make_ctc_folder


def test_both_are_measured(tmp_path: Path) -> None:
    """The service and sherpa-onnx take some processor time and memory for the same speech."""
    folder, speech = make_ctc_folder(tmp_path), np.frombuffer(pcm("quilter.ogg", 1), "<i2")
    ours, theirs = cost_of_service(folder, speech, 2), cost_of_reference(folder, speech, 2)
    assert min(ours.recogniser, ours.bridge, theirs.recogniser) > 0
    assert ours.whole == ours.recogniser + ours.bridge
    assert all(20e6 < cost.memory < 1e9 for cost in (ours, theirs))


def test_the_recogniser_alone_is_measured(tmp_path: Path) -> None:
    """The recogniser and sherpa-onnx compute about as many steps of the same speech."""
    speech = np.frombuffer(pcm("quilter.ogg", 2), "<i2")
    found = cost_of_engine(make_ctc_folder(tmp_path), speech, 2, rounds=1)
    assert min(found.engine, found.reference) > 0
    assert found.reference_steps <= found.engine_steps <= 2 * found.reference_steps
    assert abs(found.step_ratio * found.engine_steps - found.ratio * found.reference_steps) < 1e-6
