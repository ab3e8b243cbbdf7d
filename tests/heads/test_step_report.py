"""How much memory the steps of the recogniser take, with the shipped weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.acoustics.features import HOP
from streamer.heads.step_report import measure
from tests.samples import pcm

BUNDLE = asr_repository() / "streaming_asr" / "1"


def test_each_step_has_its_part(tmp_path: Path) -> None:
    """The state of the encoder has the size of its description. The heads read its frames, and have far less state."""
    speech, heard = np.frombuffer(pcm("quilter.ogg")[:96_000], np.int16), tmp_path / "heard.npz"
    parts = ("encoder", "activity", "transcript")
    # The first process on a machine writes what later ones share, and holds more of it meanwhile.
    measure(BUNDLE, "encoder", heard, 2, "cpu", speech)
    found = {part: measure(BUNDLE, part, heard, 2, "cpu", speech) for part in parts}
    shape = json.loads((BUNDLE / "model.json").read_text())["encoder"]
    numbers = shape["layers"] * (2 * shape["left_frames"] + shape["kernel"] - 1)
    slots = {part: told["slot"]["main"] for part, told in found.items()}
    # Besides, a slot keeps 32 hops of sound and their energies, which a step and its pieces share.
    pieces = 4 * 32 * (HOP + shape["mels"]) + 8
    assert 0 < slots["encoder"] - 4 * numbers * shape["width"] - pieces < 5000
    assert 1000 < slots["activity"] < 10_000 < slots["transcript"] < slots["encoder"]
    # Weights in half precision in the file, most of which onnxruntime multiplies as bytes. All instances share them.
    weights = (BUNDLE / "weights.safetensors").stat().st_size
    assert 0.5 * weights < found["encoder"]["shared"]["tables"] < weights
    assert found["encoder"]["instance"]["model"]["main"] < 1_000_000
    assert found["transcript"]["shared"]["tables"] > 1_000_000
    hotwords = found["transcript"]["hotwords"]
    assert hotwords is not None
    assert hotwords["stream"]["main"] > 0
    assert found["transcript"]["stream"]["main"] > 0
    assert [told["audio"]["main"] for told in found.values()] == [60 * 32_000, 0, 0]  # of the longest segment


def test_no_bundle(tmp_path: Path) -> None:
    """The error names the file that is missing."""
    with pytest.raises(BundleError, match=r"model\.json is missing"):
        measure(tmp_path, "encoder", tmp_path / "heard.npz", 2, "cpu", np.zeros(0, np.int16))
