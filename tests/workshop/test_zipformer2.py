"""What a small Zipformer-2 learns from, without the network itself, and the recipe in a clone of icefall."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from streamer.engine.public.graph_model import Fbank
from streamer.models.layout import Features
from workshop.graphs.comparison import random_sound
from workshop.zipformer2 import (
    BATCH_FRAMES,
    FOLDER,
    RecipeError,
    Spoken,
    batches,
    features,
    open_export,
    open_recipe,
    tokens_of,
)


def test_every_word_is_a_token() -> None:
    """The blank comes first, and each word once, as a token that begins a word."""
    silence = np.zeros(160, np.int16)
    recordings = [Spoken(silence, ("a", "small", "coffee")), Spoken(silence, ("a", "latte"))]
    assert tokens_of(recordings) == ["<blk>", "▁a", "▁coffee", "▁latte", "▁small"]


def test_every_recording_is_in_one_batch() -> None:
    """No batch is larger than allowed when its recordings are padded, unless one recording alone is."""
    random = np.random.default_rng(1)
    lengths = [*random.integers(50, 600, 200).tolist(), 2 * BATCH_FRAMES]
    found = list(batches(lengths, random))
    assert sorted(number for group in found for number in group) == list(range(len(lengths)))
    assert max(len(group) for group in found) > 5
    for group in found:
        assert len(group) == 1 or len(group) * max(lengths[number] for number in group) <= BATCH_FRAMES + 50 * len(
            group
        )


def test_features_are_those_of_the_recogniser() -> None:
    """A frame within the recording has the same numbers in the training and in the recogniser."""
    sound = random_sound(np.random.default_rng(1), 0.5)
    learnt = features(sound).numpy()
    # The training has 10 frames of silence first, and its frames are 15 ms around a multiple of 10 ms.
    start = 160 * 5 - 120
    [heard] = Fbank(Features.KALDI, 80)(sound[None, start : start + 160 * 5])
    assert np.allclose(learnt[15:18], heard, atol=1e-3)


def test_a_folder_without_the_recipe(tmp_path: Path) -> None:
    """The message names the missing part."""
    with pytest.raises(RecipeError, match=r"is not a clone of icefall: it has no egs/\S+/zipformer\.py"):
        open_recipe(tmp_path)
    with pytest.raises(RecipeError, match=r"has no egs/\S+/export\.py"):
        open_export(tmp_path, "export.py")


def test_a_folder_with_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone is known by the file of the network, and the modules of the recipe can be imported by their names."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    recipe = tmp_path / FOLDER
    recipe.mkdir(parents=True)
    (recipe / "zipformer.py").write_text("LAYERS = 6\n")
    with patch.dict(sys.modules):
        assert open_recipe(tmp_path)("zipformer").LAYERS == 6
