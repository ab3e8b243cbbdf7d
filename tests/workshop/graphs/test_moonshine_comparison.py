"""The readings of Moonshine in company are those of its own library, and those of the plainest loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamer.engine.acoustics.streaming_model import ModelState
from streamer.engine.public.moonshine_model import MoonshineModel
from workshop.graphs.exact_icefall import BATCH, Batch
from workshop.graphs.exact_moonshine import TOKENS, make_moonshine_folder, tokens_of
from workshop.graphs.moonshine_comparison import MoonshineComparison, PlainMoonshine, ReadSegment, read_segments

RECORDED = Path(__file__).with_name("moonshine_readings.json")


def _compared(folder: Path, segments: list[ReadSegment]) -> MoonshineComparison:
    plain, result = PlainMoonshine(folder), MoonshineComparison()
    result.add(segments, [plain.readings(segment.samples, segment.ends) for segment in segments], 24)
    return result


@pytest.mark.parametrize("batch", [BATCH, 1], ids=["together", "one by one"])
def test_the_same_tokens_in_any_company(batch: Batch, tmp_path: Path) -> None:
    """24 streams of different ages in 12 slots: every reading is as the plainest loop makes it of the same samples."""
    folder = make_moonshine_folder(tmp_path, 7, batch=batch)
    found = _compared(folder, read_segments(folder, 24, seconds=4, seed=1))
    assert found.different == []
    assert found.segments > 20
    assert found.tokens > 400
    assert found.revised > 20
    assert len(found.kinds) > len(TOKENS) / 2


def test_the_readings_of_its_own_library(tmp_path: Path) -> None:
    """What `scripts/measure/moonshine_models.py` has recorded of moonshine-voice 0.1.5: the same tokens."""
    result = MoonshineComparison()
    for number, group in enumerate(json.loads(RECORDED.read_text(encoding="utf-8"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        make_moonshine_folder(folder, group["seed"])
        segments = read_segments(folder, group["streams"], seconds=group["seconds"], seed=group["seed"])
        assert len(segments) == len(group["readings"])
        result.add(segments, group["readings"], group["streams"])
    assert result.different == []
    assert result.tokens > 1000


@pytest.mark.parametrize("state", ["sample_buffer", "conv1_buffer", "frame_count", "features", "place"])
def test_a_state_in_the_wrong_slot_is_found(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one of the states is left in its slot for the next segment, tokens differ."""
    reset = MoonshineModel.reset

    def careless(self: MoonshineModel, states: ModelState, slots: list[int]) -> None:
        names = [state, "held"] if state == "features" else [state]
        kept = {name: states[name][list(slots)].copy() for name in names}
        reset(self, states, slots)
        for name, value in kept.items():
            states[name][list(slots)] = value

    monkeypatch.setattr(MoonshineModel, "reset", careless)
    folder = make_moonshine_folder(tmp_path, 7)
    # Some segments end at their greatest length: after the faint noise at the end of a stream, most states are zero.
    assert _compared(folder, read_segments(folder, 4, seconds=9, seed=1)).different


def test_a_text_says_its_tokens() -> None:
    """The tokens of the models that are made can be told from their text alone."""
    random = np.random.default_rng(0)
    tokens = [TOKENS[number] for number in random.integers(3, len(TOKENS) - 1, 200)]
    text = "".join(tokens).replace("▁", " ").strip()
    assert tokens_of(text) == tokens
