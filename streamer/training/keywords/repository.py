"""Makes a model repository with a keyword spotter beside the shipped heads."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.heads.keyword_network import KeywordNetwork
from streamer.triton.model_config import CONFIG, config_text, model_config
from streamer.triton.repository import asr_repository

HEAD, ENSEMBLE = "keyword_head", "asr_keywords"
_STEP_BEFORE = "transcript_head"

_MODEL = '''"""The keyword spotter. `keywords.safetensors` is its network."""

from streamer.adapters.keyword_model import KeywordModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
'''


def keyword_repository(folder: Path, network: KeywordNetwork) -> Path:
    """Link the shipped models into this folder, and add the head and an ensemble with it."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in asr_repository().iterdir():
        if not (folder / model.name).is_symlink():
            (folder / model.name).symlink_to(model)
    for name in (HEAD, ENSEMBLE):
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
    network.save(folder / HEAD / "1")
    (folder / HEAD / "1" / "model.py").write_text(_MODEL, encoding="utf-8")
    (folder / HEAD / CONFIG).write_text(_head_config(network.width), encoding="utf-8")
    (folder / ENSEMBLE / CONFIG).write_text(_ensemble_config(), encoding="utf-8")
    return folder


def _head_config(width: int) -> str:
    """What the activity head has, with other inputs and outputs."""
    config = model_config(asr_repository() / "activity_head")
    config.name = HEAD
    config.ClearField("parameters")
    config.input[1].name, config.input[1].dims[1] = "FRAMES", width
    del config.output[:]
    config.output.add(name="HEAD_EVENTS", data_type=config.input[0].data_type, dims=[-1])
    return config_text(config)


def _ensemble_config() -> str:
    """The shipped ensemble with one more step, whose events go through the last one."""
    config = model_config(asr_repository() / "asr_heads")
    config.name = ENSEMBLE
    steps = config.ensemble_scheduling.step
    last = next(step for step in steps if step.model_name == _STEP_BEFORE)
    last.input_map["HEAD_EVENTS"] = "head_events"
    head = steps.add(model_name=HEAD, model_version=-1)
    head.input_map["PASSAGE"] = last.input_map["PASSAGE"]
    head.input_map["FRAMES"] = last.input_map["FRAMES"]
    head.output_map["HEAD_EVENTS"] = "head_events"
    return config_text(config)
