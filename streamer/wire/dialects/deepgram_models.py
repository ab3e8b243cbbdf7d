"""Models and projects as Deepgram's clients see them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamer import __version__
from streamer.base.json_types import JsonObject
from streamer.wire.dialects.deepgram import model_info, uuid_of
from streamer.wire.dialects.deepgram_options import ENGLISH
from streamer.wire.dialects.dialect import Languages

MODELS: Final = "/v1/models"
PROJECTS: Final = "/v1/projects"
PROJECT_ID: Final = uuid_of("streamer project")
PROJECT: Final[JsonObject] = {"project_id": PROJECT_ID, "name": "streamer"}  # the only one


def projects() -> JsonObject:
    """Return the list of projects."""
    return {"projects": [PROJECT]}


def models(languages: Mapping[str, Languages]) -> JsonObject:
    """Return the list of models. `languages`: the service's models by public name. It speaks with no voice."""
    return {"stt": [_model(name, each) for name, each in languages.items()], "tts": []}


def model(wanted: str, languages: Mapping[str, Languages]) -> JsonObject | None:
    """Return the model with this UUID or name; None if there is none."""
    for name, each in languages.items():
        if wanted in (name, model_info(name)[0]):
            return _model(name, each)
    return None


def _model(name: str, languages: Languages) -> JsonObject:
    uuid, info = model_info(name)
    return {
        "name": name,
        "canonical_name": name,
        "architecture": info["arch"],
        # A model without a choice knows English; one that is not loaded has not said yet what it knows.
        "languages": [ENGLISH] if languages == () else list(languages or ()),
        "version": __version__,
        "uuid": uuid,
        "batch": True,
        "streaming": True,
        "formatted_output": True,
    }
