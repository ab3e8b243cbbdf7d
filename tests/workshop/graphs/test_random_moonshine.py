"""Models of Moonshine with random weights, in the architecture of the published ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.base.events import Final
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.models.moonshine_folder import PARTS, read_moonshine_folder
from tests.samples import pcm
from workshop.graphs.exact_icefall import BATCH, Batch
from workshop.graphs.random_moonshine import Size, make_random_folder


@pytest.mark.parametrize(("batch", "together"), [(1, set()), (BATCH, set(PARTS))], ids=["int8", "full numbers"])
def test_a_small_one(batch: Batch, together: set[str], tmp_path: Path) -> None:
    """It can be loaded, and writes as many tokens as a decoder may."""
    folder = make_random_folder(tmp_path, Size(40, 32, 4, 4), batch=batch)
    assert read_moonshine_folder(folder).together == together
    recogniser = load_public_model(folder, name="random", slots=1)
    recogniser.open(1, StreamOptions(search="greedy"))
    [(_, events)] = recogniser.step([Chunk(1, np.frombuffer(pcm("talk.flac", 3.0), np.int16), end=True)])
    assert not isinstance(events, StreamError)
    assert sum(len(event.text.split()) for event in events if isinstance(event, Final)) > 10
