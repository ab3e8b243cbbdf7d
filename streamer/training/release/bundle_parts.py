"""Copies the parts of a bundle. Each part is a file. Parts that have not changed are not written again."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from pathlib import Path

from streamer.engine.bundle import LETTERS_FILE, LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE
from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.models.acoustic_model import ACTIVITY_FILE, MODEL_FILE, WEIGHTS_FILE
from streamer.engine.text.calibration import CALIBRATION_FILE
from streamer.training.data.corpus import CorpusError
from streamer.training.data.replaced_file import replacing

PARTS = (
    MODEL_FILE,
    WEIGHTS_FILE,
    ACTIVITY_FILE,
    LANGUAGE_FILE,
    LEXICON_FILE,
    LETTERS_FILE,
    NEURAL_FILE,
    SEARCH_FILE,
    CALIBRATION_FILE,
)


def take_over(source: Path, bundle: Path, tell: Callable[[str], None]) -> list[str]:
    """Copy all parts of `source` into a bundle. Returns the names of the parts that are new."""
    parts = [name for name in PARTS if (source / name).is_file()]
    if not parts:
        raise CorpusError(f"{source} contains no part of a bundle: give the folder `averaged` of a run")
    new = []
    for name in parts:
        target = bundle / name
        if target.is_file() and filecmp.cmp(source / name, target, shallow=False):
            tell(f"{name} has not changed")
            continue
        with replacing(target, "wb") as file:
            file.write((source / name).read_bytes())
        new.append(name)
        tell(f"{name} is new: {target.stat().st_size / 1e6:.1f} MB")
    return new
