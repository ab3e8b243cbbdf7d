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


def keyword_repository(folder: Path, network: KeywordNetwork, head: str = HEAD, ensemble: str = ENSEMBLE) -> Path:
    """Link the shipped models into this folder, and add the head and an ensemble with it, under these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in asr_repository().iterdir():
        if not (folder / model.name).is_symlink():
            (folder / model.name).symlink_to(model)
    for name in (head, ensemble):
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
    network.save(folder / head / "1")
    (folder / head / "1" / "model.py").write_text(_MODEL, encoding="utf-8")
    (folder / head / CONFIG).write_text(_head_config(head, network.width), encoding="utf-8")
    (folder / ensemble / CONFIG).write_text(_ensemble_config(ensemble, head), encoding="utf-8")
    return folder


def _head_config(name: str, width: int) -> str:
    """Return the configuration of the activity head, with other inputs and outputs."""
    config = model_config(asr_repository() / "activity_head")
    config.name = name
    config.ClearField("parameters")
    config.input[1].name, config.input[1].dims[1] = "FRAMES", width
    del config.output[:]
    config.output.add(name="HEAD_EVENTS", data_type=config.input[0].data_type, dims=[-1])
    return config_text(config)


def _ensemble_config(name: str, head: str) -> str:
    """Return the shipped ensemble with one more step, whose events go to the last one."""
    config = model_config(asr_repository() / "asr_heads")
    config.name = name
    steps = config.ensemble_scheduling.step
    last = next(each for each in steps if each.model_name == _STEP_BEFORE)
    last.input_map["HEAD_EVENTS"] = "head_events"
    step = steps.add(model_name=head, model_version=-1)
    step.input_map["PASSAGE"] = last.input_map["PASSAGE"]
    step.input_map["FRAMES"] = last.input_map["FRAMES"]
    step.output_map["HEAD_EVENTS"] = "head_events"
    return config_text(config)
