"""Makes model repositories for a real Triton. Their model recognises test audio exactly, and can have a fault.

Triton, its configuration and the adapter are the shipped ones; only the recogniser is different.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from streamer.triton import MODEL
from streamer.triton.model_config import CONFIG, config_text, model_config, reconfigure
from streamer.triton.repository import asr_repository

Fault = Literal["does not load", "fails", "says nothing", "talks nonsense", "hangs", "hangs later"]

# The faults that a model can have.
FAULTS: Final[dict[Fault, str]] = {
    "does not load": "Triton cannot load it",
    "fails": "every request is answered with an error",
    "says nothing": "requests are answered without events",
    "talks nonsense": "its events are not JSON",
    "hangs": "a stream waits for 12 s if no other one is open",
    "hangs later": "it stops answering for good when there is a file `hang` beside its model.py",
}

_ADAPTER = """from streamer.testing.exact_adapter import adapter

TritonPythonModel = adapter(__file__, {fault!r}, punctuation={punctuation})
"""

_STEP = """from streamer.machine.torch_import import import_torch

import_torch()  # as the shipped adapters do
from streamer.testing.exact_heads import {adapter} as TritonPythonModel
"""

_STEPS: Final = {
    "speech_encoder": "ExactEncoder",
    "activity_head": "ExactActivity",
    "transcript_head": "ExactTranscript",
}


def exact_repository(folder: Path, *, punctuation: bool = False) -> Path:
    """Make a repository in this folder, with an exact model in the place of the shipped one.

    With `punctuation`, the written form has the marks and capitals of the shipped punctuation model.
    """
    add_exact_model(folder, punctuation=punctuation)
    return folder


def exact_heads_repository(folder: Path) -> Path:
    """Make a repository in this folder, with an exact recogniser in steps in the place of the shipped `asr_heads`."""
    for name in ("asr_heads", "feature_router"):
        (folder / name).symlink_to(asr_repository() / name)
    for name, adapter in _STEPS.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / CONFIG).symlink_to(asr_repository() / name / CONFIG)
        text = _STEP.format(adapter=adapter)
        (folder / name / "1" / "model.py").write_text(text, encoding="utf-8")
    return folder


def add_exact_model(
    repository: Path,
    name: str = MODEL,
    *,
    slots: int | None = None,
    instances: int | None = None,
    fault: Fault | None = None,
    punctuation: bool = False,
) -> Path:
    """Put an exact model of this name into a repository, and return its folder. `slots` is for each instance."""
    config = reconfigure(model_config(asr_repository() / MODEL), name=name, instances=instances, slots=slots)
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / CONFIG).write_text(config_text(config), encoding="utf-8")
    (folder / "1" / "model.py").write_text(_ADAPTER.format(fault=fault, punctuation=punctuation), encoding="utf-8")
    return folder
