"""Makes the plan of a session in a foreign format: its speech, and the options of the format."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.testing.soak.session_plan import (
    LONGEST_S,
    MOST_VOICES,
    Action,
    SessionPlan,
    draw_sent,
    encoded,
)
from streamer.testing.soak.traceable_speech import VOICES, draw_speech

NATIVE: Final = "native"
# The formats of sessions, and their relative frequencies.
FORMATS: Final = {
    NATIVE: 60,
    "upload": 8,
    "openai_file": 8,
    "deepgram": 10,
    "deepgram_file": 4,
    "openai_realtime": 10,
}
UPLOADS: Final = ("upload", "openai_file", "deepgram_file")
_VANISH: Final = 0.12
_MEAN_WORDS: Final = 11
_CHOICES: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "upload": ({"format": "json"}, {"stream": "true"}, {"format": "jsonl"}),
    "openai_file": (
        {"response_format": "json"},
        {"response_format": "text"},
        {"response_format": "verbose_json", "timestamp_granularities[]": "word"},
        {"stream": "true"},
    ),
    "deepgram": (
        {},
        {"interim_results": "true"},
        {"interim_results": "true", "punctuate": "true", "vad_events": "true", "utterance_end_ms": "1000"},
        {"endpointing": "false"},
    ),
    "deepgram_file": ({}, {"utterances": "true"}, {"smart_format": "true"}),
    "openai_realtime": (
        {"turn_detection": None},
        {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}},
        {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}},
    ),
}


def draw_format(seed: int, number: int) -> str:
    """Draw the format of the session with this number."""
    [name] = random.Random(f"{seed} {number} format").choices(list(FORMATS), list(FORMATS.values()))
    return name


def draw_foreign_plan(seed: int, number: int, format: str) -> SessionPlan:
    """Draw the plan of the session with this number in this format. Its kind is the format."""
    rng = random.Random(f"{seed} {number} {format}")
    options: dict[str, Any] = {"ways": rng.choice(_CHOICES[format])}
    if format != "openai_realtime":
        # Files come as WAV or FLAC. Live audio comes as samples, or in the container of a WAV file.
        options["container"] = rng.choice(("WAV", "FLAC")) if format in UPLOADS else rng.choice(("", "", "WAV"))
    words = min(1 + int(rng.expovariate(1 / _MEAN_WORDS)), 60)
    speeches = (draw_speech(number * MOST_VOICES % VOICES, words, rng),)
    audio = encoded(speeches, {})
    audio_s = len(speeches[0].audio) / SAMPLE_RATE
    pace = rng.choice([None, None, *(pace for pace in (8.0, 4.0, 2.0, 1.0) if audio_s / pace <= LONGEST_S)])
    plan = SessionPlan(seed, number, format, options, speeches, audio, (), frozenset(), pace)
    items, end = list(draw_sent(plan, rng)), "done"
    if rng.random() < _VANISH:
        items = [*items[: rng.randint(0, len(items) - 1)], Action("vanish")]
        end = "vanished"
    return SessionPlan(seed, number, format, options, speeches, audio, tuple(items), frozenset({end}), pace)
