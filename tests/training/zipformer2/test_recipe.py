"""The recipe in a clone of icefall."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.zipformer2.recipe import RecipeError, open_export, open_recipe


def test_a_folder_without_the_recipe(tmp_path: Path) -> None:
    """The message names the missing part."""
    with pytest.raises(RecipeError, match=r"is not a clone of icefall: it has no egs/\S+/zipformer\.py"):
        open_recipe(tmp_path)
    with pytest.raises(RecipeError, match=r"has no egs/\S+/export\.py"):
        open_export(tmp_path, "export.py")
