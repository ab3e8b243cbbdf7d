"""What the documentation says about settings, compared with what they do."""

from __future__ import annotations

import re
from typing import Any

from streamer.wire.dialects.openai_realtime.mistakes import Mistake
from streamer.wire.dialects.openai_realtime.settings import ServerVad, Settings
from streamer.wire.dialects.openai_realtime.updates import update_settings
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
