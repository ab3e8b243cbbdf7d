"""Settings of a realtime session in both shapes: what the documentation says about them, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from streamer.wire.dialects.dialect import Languages
from streamer.wire.dialects.openai_settings import (
    AudioFormat,
    Mistake,
    SemanticVad,
    ServerVad,
    Settings,
    update_settings,
)
from tests.project import DOCS

MODELS = {"default": (), "fine": ()}
# For each setting a value that differs from the usual one.
EXAMPLES: dict[str, Any] = {
    "format": {"type": "audio/pcmu"},
    "turn_detection": None,
    "turn_detection.silence_duration_ms": 900,
    "turn_detection.eagerness": "low",
    "turn_detection.prefix_padding_ms": 100,
    "turn_detection.threshold": 0.9,
    "turn_detection.idle_timeout_ms": 5000,
    "turn_detection.create_response": True,
    "turn_detection.interrupt_response": True,
    "transcription.model": "fine",
    "transcription.language": "de",
    "transcription.languages": ["de"],
    "transcription.keywords": ["Ada"],
    "transcription.prompt": "Ada, Grace Hopper",
    "transcription.delay": "low",
    "noise_reduction": {"type": "near_field"},
    "include": ["item.input_audio_transcription.logprobs"],
}


def effect(name: str, value: Any) -> Any:
    """What a session does after an update with this setting; the sentence if it is an error."""
    outer, _, inner = name.partition(".")
    kind = {"type": "semantic_vad"} if inner == "eagerness" else {}
    given = {outer: {**kind, inner: value} if inner else value}
    session = given if name == "include" else {"audio": {"input": given}}
    try:
        settings = update_settings(Settings(), session, MODELS)
    except Mistake as mistake:
        return mistake.message
    detection = settings.turn_detection
    return settings.start(MODELS), None if detection is None else detection.prefix_padding_ms


def test_the_documentation_lists_every_setting() -> None:
    """A used setting changes what a session does, or says why it cannot; an ignored one changes nothing."""
    page = (DOCS / "reference" / "compatibility.md").read_text(encoding="utf-8")
    table = page.partition("<!-- the settings of OpenAI in realtime")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| (used|ignored) \|", table, re.MULTILINE))
    assert list(rows) == list(EXAMPLES)
    usual = (Settings().start(MODELS), ServerVad().prefix_padding_ms)
    does = {name: "ignored" if effect(name, value) == usual else "used" for name, value in EXAMPLES.items()}
    assert does == rows


def test_the_documentation_has_the_silences() -> None:
    """The documentation has the silence of each eagerness, and the bounds."""
    page = (DOCS / "reference" / "compatibility.md").read_text(encoding="utf-8")
    endpoints = {
        eagerness: effect("turn_detection.eagerness", eagerness)[0]["endpoint"]
        for eagerness in ("high", "auto", "medium", "low")
    }
    assert all(endpoint["turn"] for endpoint in endpoints.values())
    assert [endpoint["eagerness"] for endpoint in endpoints.values()] == ["high", "medium", "medium", "low"]
    assert [endpoint["longest_pause_ms"] for endpoint in endpoints.values()] == [1200, 2000, 2000, 4000]
    assert "1200 ms with `high`, 2000 with `auto` and `medium`, 4000 with `low`" in page
    bounds = [ServerVad(silence_duration_ms=asked).pause_ms for asked in (0, 60_000)]
    assert f"a turn: {bounds[0]} to {bounds[1]};" in page


# What the plugins send at the beginning.
AGENTS = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
            "turn_detection": {"type": "semantic_vad"},
        }
    },
}
LIVEKIT = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-mini-transcribe", "prompt": "", "language": "en"},
            "turn_detection": {
                "type": "server_vad",
                "threshold": 0.5,
                "prefix_padding_ms": 600,
                "silence_duration_ms": 350,
            },
            "noise_reduction": {"type": "near_field"},
        }
    },
}
PIPECAT = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
OLD = {
    "input_audio_format": "g711_ulaw",
    "input_audio_transcription": {"model": "whisper-1", "prompt": "", "language": ""},
    "turn_detection": {"type": "server_vad", "silence_duration_ms": 800, "create_response": None},
    "input_audio_noise_reduction": None,
    "include": ["item.input_audio_transcription.logprobs"],
}
SERVED_MODELS: Mapping[str, Languages] = {
    "default": (),
    "fine": (),
    "several": ("auto", "de-DE", "en-GB"),
    "later": None,
}


def after(*sessions: Any) -> Settings:
    """The settings after these updates."""
    settings = Settings()
    for session in sessions:
        settings = update_settings(settings, session, SERVED_MODELS)
    return settings


def below(**settings: Any) -> dict[str, Any]:
    return {"audio": {"input": settings}}


@pytest.mark.parametrize(
    ("session", "format", "turns", "endpoint"),
    [
        ({}, AudioFormat(), ServerVad(), {"after_text_ms": 500}),
        (AGENTS, AudioFormat(), SemanticVad("auto"), {"turn": True, "eagerness": "medium", "longest_pause_ms": 2000}),
        (LIVEKIT, AudioFormat(), ServerVad(0.5, 600, 350), {"after_text_ms": 400}),
        (PIPECAT, AudioFormat(), None, {}),
        (OLD, AudioFormat("audio/pcmu", 8000), ServerVad(silence_duration_ms=800), {"after_text_ms": 800}),
    ],
)
def test_what_clients_send_first(session: Any, format: AudioFormat, turns: Any, endpoint: dict[str, int]) -> None:
    """The first updates of known clients are understood."""
    settings = after(session)
    assert (settings.format, settings.turn_detection) == (format, turns)
    options = settings.start(SERVED_MODELS)
    assert options["endpoint"] == endpoint
    assert options["speech"] is (turns is not None)


def test_only_what_is_named_changes() -> None:
    """Only named settings change, also in objects; null switches a setting off."""
    settings = after(LIVEKIT, below(transcription={"prompt": "Ada, Grace"}), below(turn_detection={"threshold": 0.9}))
    assert settings.turn_detection == ServerVad(0.9, 600, 350)
    assert settings.transcription == {"model": "gpt-4o-mini-transcribe", "prompt": "Ada, Grace", "language": "en"}
    settings = after(LIVEKIT, below(turn_detection=None, noise_reduction=None, transcription=None, format=None))
    assert (settings.turn_detection, settings.noise_reduction, settings.transcription) == (None, None, None)
    assert settings.format == AudioFormat()
    assert after(AGENTS, below(turn_detection={"type": "server_vad"})).turn_detection == ServerVad()
    assert after(AGENTS, below(turn_detection={"eagerness": "low"})).turn_detection == SemanticVad("low")


@pytest.mark.parametrize(
    ("given", "encoding", "rate"),
    [
        ({"type": "audio/pcm", "rate": 24000}, "pcm_s16le", 24000),
        ({"type": "audio/pcm"}, "pcm_s16le", 24000),
        ({"type": "audio/pcm", "rate": 16000}, "pcm_s16le", 16000),
        ({"type": "audio/pcmu"}, "mulaw", 8000),
        ({"type": "audio/pcma", "rate": 8000}, "alaw", 8000),
        ("pcm16", "pcm_s16le", 24000),
        ("g711_alaw", "alaw", 8000),
    ],
)
def test_formats(given: Any, encoding: str, rate: int) -> None:
    """PCM at any rate that the recogniser takes, and G.711."""
    options = after(below(format=given)).start(SERVED_MODELS)
    assert (options["encoding"], options["sample_rate"]) == (encoding, rate)


@pytest.mark.parametrize(
    ("transcription", "hotwords"),
    [
        ({"keywords": ["Ada", "Grace Hopper", "", "a b c d e f g", "Ada"]}, ["Ada", "Grace Hopper"]),
        ({"prompt": "Keywords: Ada, Grace Hopper.", "keywords": None}, ["Ada", "Grace Hopper"]),
        ({"prompt": "Ada\nGrace Hopper; Kurt Gödel"}, ["Ada", "Grace Hopper", "Kurt Gödel"]),
        ({"prompt": "Expect words related to technology."}, []),
        ({"prompt": "Hello, this is the transcript of a call."}, []),
        ({}, []),
    ],
)
def test_hints_become_hotwords(transcription: dict[str, Any], hotwords: list[str]) -> None:
    """Keywords, and a prompt that is a list of names. A text about the audio is ignored."""
    assert after(below(transcription=transcription)).start(SERVED_MODELS)["hotwords"] == hotwords


def test_models() -> None:
    """A public name of the service chooses its model; all others mean the default one, or that of the address."""
    settings = after(below(transcription={"model": "fine"}))
    assert settings.start(SERVED_MODELS)["model"] == "fine"
    assert settings.start({"default": ()})["model"] == "default"
    assert after(AGENTS).start(SERVED_MODELS, "fine")["model"] == "fine"


@pytest.mark.parametrize(
    ("transcription", "told"),
    [
        ({"model": "several", "language": "de"}, "de-DE"),
        ({"model": "several", "language": "english"}, "en-GB"),
        ({"model": "several", "languages": ["nl", "de"]}, "de-DE"),
        ({"model": "several", "language": None}, "auto"),
        ({"model": "later", "language": "de"}, "de"),
        ({"language": "en-US"}, "auto"),
    ],
)
def test_the_language(transcription: dict[str, Any], told: str) -> None:
    """A model with a choice gets the language by its own name for it."""
    assert after(below(transcription=transcription)).start(SERVED_MODELS)["language"] == told


def test_shown_in_both_shapes() -> None:
    """Both shapes show the settings, with the silence that really ends a turn."""
    turns = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 600, "silence_duration_ms": 400}
    settings = after(LIVEKIT)
    shown: dict[str, Any] = settings.view("sess_1")
    assert shown["audio"]["input"]["turn_detection"] == turns
    assert shown["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    flat = after(OLD).flat_view("sess_1")
    assert flat["input_audio_format"] == "g711_ulaw"
    assert flat["include"] == OLD["include"]
    assert after(PIPECAT).flat_view("sess_1")["turn_detection"] is None


@pytest.mark.parametrize(
    ("session", "param", "says"),
    [
        (None, "session", "must be an object, not null"),
        ({"audio": []}, None, ""),
        ({"audio": [1]}, "session.audio", "not a list"),
        (below(format="mp3"), "session.audio.input.format", "pcm16, g711_ulaw"),
        (below(format={"type": "audio/mp3"}), "session.audio.input.format.type", '"audio/mp3"'),
        (below(format={"type": "audio/pcm", "rate": 4000}), "session.audio.input.format.rate", "8000 to 192000"),
        (below(turn_detection="server_vad"), "session.audio.input.turn_detection", "not a string"),
        ({"turn_detection": {"type": "none"}}, "session.turn_detection.type", "null switches it off"),
        (below(turn_detection={"silence_duration_ms": "1"}), "session.audio.input.turn_detection.", "at least 0"),
        (below(turn_detection={"threshold": float("nan")}), "session.audio.input.turn_detection.", "at least 0"),
        (
            below(turn_detection={"type": "semantic_vad", "eagerness": "x"}),
            "session.audio.input.turn_detection.",
            "low, ",
        ),
        (below(transcription={"language": "de"}), "session.audio.input.transcription.language", "only English"),
        (below(transcription={"languages": ["de", "fr"]}), "session.audio.input.transcription.", "only English"),
        (
            below(transcription={"model": "several", "language": "nl"}),
            "session.audio.input.transcription.",
            "de-DE, en",
        ),
        (below(transcription={"prompt": {"a": 1}}), "session.audio.input.transcription.prompt", "not an object"),
        ({"include": [[]]}, "session.include", "list of strings"),
        (below(transcription={"prompt": "\ud800"}), "session.audio.input.transcription.prompt", "do not exist"),
        ({"include": ["a", "\udfff"]}, "session.include", "do not exist"),
    ],
)
def test_mistake(session: Any, param: str | None, says: str) -> None:
    """The setting is named. An empty value of another kind is no setting."""
    if param is None:
        assert after(session) == Settings()
        return
    with pytest.raises(Mistake) as caught:
        after(session)
    assert str(caught.value.param).startswith(param)
    assert says in caught.value.message
