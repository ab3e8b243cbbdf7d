"""Model repositories for a real Triton whose model hears any text exactly, and can be made to fail.

Triton, its configuration and the adapter `model.py` are those that are shipped; only the recogniser is another one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from streamer.triton import MODEL
from streamer.triton.model_config import CONFIG, config_text, configured, model_config
from streamer.triton.repository import asr_repository

Fault = Literal["does not load", "fails", "says nothing", "talks nonsense", "hangs", "hangs later"]

# What is wrong with a model.
FAULTS: Final[dict[Fault, str]] = {
    "does not load": "Triton cannot load it",
    "fails": "every request is answered by an error",
    "says nothing": "requests are answered without events",
    "talks nonsense": "its events are not JSON",
    "hangs": "the first stream waits for 12 s, and so does each that comes when there is no other",
    "hangs later": "it answers until there is a file `hang` beside its model.py, and then never again",
}

_ADAPTER = """from streamer.testing.exact_adapter import adapter

TritonPythonModel = adapter(__file__, {fault!r}).TritonPythonModel
"""


def exact_repository(folder: Path) -> Path:
    """Makes a repository in this folder in which the model that is shipped is replaced by an exact one."""
    add_exact_model(folder)
    return folder


def add_exact_model(
    repository: Path,
    name: str = MODEL,
    *,
    slots: int | None = None,
    instances: int | None = None,
    fault: Fault | None = None,
) -> Path:
    """Puts an exact model of this name into a repository, and returns its folder; slots are those of an instance."""
    config = configured(model_config(asr_repository() / MODEL), name=name, instances=instances, slots=slots)
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / CONFIG).write_text(config_text(config), encoding="utf-8")
    (folder / "1" / "model.py").write_text(_ADAPTER.format(fault=fault), encoding="utf-8")
    return folder
