"""A model repository in which everything is the shipped one, but for the recogniser: it hears any text exactly.

The model is that of level_model.py. Triton, its configuration and the adapter `model.py` are those
that are shipped.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.testing.level_model import UNITS, LevelModel
from streamer.triton import MODEL
from streamer.triton.model_config import CONFIG
from streamer.triton.repository import asr_repository

_MODEL = """from streamer.testing.exact_repository import adapter

TritonPythonModel = adapter().TritonPythonModel
"""


def exact_repository(folder: Path) -> Path:
    """Makes the repository in this folder."""
    shipped = asr_repository() / MODEL
    version = folder / MODEL / "1"
    version.mkdir(parents=True)
    (folder / MODEL / CONFIG).write_text((shipped / CONFIG).read_text(encoding="utf-8"), encoding="utf-8")
    (version / "model.py").write_text(_MODEL, encoding="utf-8")
    return folder


def adapter() -> Any:
    """The shipped `model.py`, whose recogniser is the exact one; within Triton."""
    path = asr_repository() / MODEL / "1" / "model.py"
    spec = importlib.util.spec_from_file_location("shipped_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_recogniser = exact_recogniser  # type: ignore[attr-defined]
    return module


def exact_recogniser(folder: Path, *, slots: int, device: object = None, idle_limit_s: float = 20.0) -> Recogniser:
    """Hears the level of the audio, whichever search is asked for."""
    searches = {name: GreedySearch(UNITS, slots) for name in ("lexicon", "greedy")}
    return Recogniser(LevelModel(), searches, slots=slots, idle_limit_s=idle_limit_s)
