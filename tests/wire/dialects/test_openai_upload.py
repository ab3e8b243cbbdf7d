"""OpenAI's form of a recording: the language and hotwords. The rest is tested at the port (tests/bridge/uploads)."""

from __future__ import annotations

import json

import pytest

from streamer.wire.dialects.openai_upload import OpenAIUpload
from streamer.wire.errors import WireError

MODELS = {"default": (), "several": ("auto", "de-DE", "en-GB"), "later": None}


def started(*fields: tuple[str, str]) -> OpenAIUpload:
    """A form with these fields before its file."""
    form = OpenAIUpload(MODELS)
    for name, value in fields:
        form.field(name, value, late=False)
    form.look(b"RIFF")
    return form


@pytest.mark.parametrize(
    ("model", "language", "told"),
    [
        ("several", "de", "de-DE"),
        ("several", "english", "en-GB"),
        ("several", "", "auto"),
        ("later", "de", "de"),
        ("whisper-1", "en", "auto"),
    ],
)
def test_a_language_before_the_file(model: str, language: str, told: str) -> None:
    """A model with a choice gets the language, wherever the form names the model."""
    for fields in ([("language", language), ("model", model)], [("model", model), ("language", language)]):
        assert json.loads(started(*fields).start(1))["language"] == told
    verbose = started(("language", language), ("model", model), ("response_format", "verbose_json"))
    verbose.settle()
    shown = "english" if model == "whisper-1" else told
    assert json.loads(verbose.document()[1])["language"] == shown


def test_a_language_that_the_model_lacks() -> None:
    """A language that the model lacks is refused, even if it comes after the file."""
    with pytest.raises(WireError, match='must be one of auto, de-DE, en-GB, not "nl"'):
        started(("model", "several"), ("language", "nl"))
    form = started(("model", "several"))
    form.field("language", "de", late=True)
    with pytest.raises(WireError, match="must be one of auto"):
        started(("model", "several")).field("language", "nl", late=True)


@pytest.mark.parametrize(
    "fields",
    [[("keywords[]", "Ada"), ("keywords[]", "Grace Hopper")], [("hotwords", "Ada, , Grace Hopper,a b c d e f g")]],
)
def test_hotwords_before_the_file(fields: list[tuple[str, str]]) -> None:
    """Hotwords are listened for, one in each field or all in one; what cannot be a hotword is left out."""
    assert json.loads(started(*fields).start(1))["hotwords"] == ["Ada", "Grace Hopper"]
