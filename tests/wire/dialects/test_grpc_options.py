"""What clients of Riva and Google may ask for: each wish becomes an option of the session, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamer.base.json_types import JsonObject
from streamer.wire.dialects.grpc_options import (
    CONTAINED,
    ENCODINGS,
    FIELDS,
    NO_FIELD,
    Wishes,
    google_v1_wishes,
    google_v2_wishes,
    riva_wishes,
)
from streamer.wire.errors import WireError

MODELS = {"default": (), "german": ("de-DE", "en-US")}


def started(wishes: Wishes, samples: str | None = "pcm_s16le", **recorded: bool) -> dict[str, Any]:
    """Return the options of the session for some wishes."""
    wishes.sample_rate = wishes.sample_rate or 16_000
    options: dict[str, Any] = json.loads(wishes.start(MODELS, samples, 1, recorded=recorded.get("recorded", False)))
    return options


def test_the_page_has_what_may_be_asked_for() -> None:
    """The reference has each wish with its fields and its meaning, and the encodings."""
    page = Path("docs/reference/compatibility.md").read_text()
    table = page.partition("<!-- the fields of Riva and Google")[2].partition("\n\n")[0]
    rows = []
    for field in FIELDS:
        names = " | ".join(f"`{name}`" if name else "no" for name in (field.riva, field.v1, field.v2))
        rows.append(f"| {names} | {field.meaning} |")
    assert table.splitlines()[3:] == rows
    encodings = page.partition("<!-- the encodings of Riva and Google -->")[2].partition("\n\n")[0]
    assert all(f"`{name}`" in encodings for name in (*ENCODINGS, *CONTAINED))


def test_the_defaults_of_clients() -> None:
    """What a client merely leaves out changes nothing."""
    config: JsonObject = {"encoding": "LINEAR16", "sample_rate_hertz": 16_000}
    sessions = [
        started(wishes)
        for wishes in (
            riva_wishes(config, False),
            google_v1_wishes(config, {}),
            google_v2_wishes({"explicit_decoding_config": config}, {}),
        )
    ]
    assert sessions[0] == sessions[1] == sessions[2]
    expected = {"partials": False, "alternatives": 0, "written": False, "speakers": False, "hotwords": []}
    assert expected.items() <= sessions[0].items()
    assert (sessions[0]["model"], sessions[0]["endpoint"]) == ("default", {})


def test_everything_of_riva() -> None:
    """Each field has its option."""
    config: JsonObject = {
        "model": "german",
        "language_code": "de-DE",
        "max_alternatives": 3,
        "profanity_filter": True,
        "speech_contexts": [{"phrases": ["Ada", "Grace"], "boost": 8.0}],
        "enable_word_time_offsets": True,
        "enable_automatic_punctuation": True,
        "enable_separate_recognition_per_channel": True,
        "diarization_config": {"enable_speaker_diarization": True, "max_speaker_count": 3},
        "endpointing_config": {"stop_history": 700},
    }
    wishes = riva_wishes(config, True)
    assert wishes.words
    assert {
        "model": "german",
        "language": "de-DE",
        "alternatives": 3,
        "profanity": "mask",
        "hotwords": [{"text": "Ada", "weight": 2.0}, {"text": "Grace", "weight": 2.0}],
        "written": True,
        "multichannel": True,
        "speakers": True,
        "endpoint": {"after_text_ms": 700},
        "partials": True,
    }.items() <= started(wishes).items()


def test_everything_of_google() -> None:
    """Both versions have the same options for the same wishes."""
    phrases = [{"value": "Ada", "boost": 20.0}, {"value": "Grace"}]
    features: JsonObject = {"profanity_filter": True, "enable_word_confidence": True, "max_alternatives": 99}
    features |= {"enable_automatic_punctuation": True, "enable_spoken_punctuation": True}
    streaming: JsonObject = {"interim_results": True, "enable_voice_activity_events": True}
    v1 = google_v1_wishes(
        {
            **features,
            "language_code": "fr-FR",
            "alternative_language_codes": ["de-DE"],
            "model": "german",
            "adaptation": {"phrase_sets": [{"phrases": phrases, "boost": 2.0}]},
            "enable_separate_recognition_per_channel": True,
            "diarization_config": {"enable_speaker_diarization": True, "min_speaker_count": 2, "max_speaker_count": 2},
        },
        streaming,
    )
    v2 = google_v2_wishes(
        {
            "language_codes": ["fr-FR", "de-DE"],
            "model": "german",
            "adaptation": {"phrase_sets": [{"inline_phrase_set": {"phrases": phrases, "boost": 2.0}}]},
            "features": {
                **features,
                "multi_channel_mode": "SEPARATE_RECOGNITION_PER_CHANNEL",
                "diarization_config": {"min_speaker_count": 2, "max_speaker_count": 2},
            },
        },
        streaming,
    )
    assert v1 == v2
    assert {
        "language": "de-DE",
        "alternatives": 10,
        "hotwords": [{"text": "Ada", "weight": 5.0}, {"text": "Grace", "weight": 0.5}],
        "speakers": 2,
        "speech": True,
        "dictation": True,
    }.items() <= started(v1).items()


@pytest.mark.parametrize("boost", [-4.0, "NaN", "Infinity", None])
def test_boosts_that_are_no_weight(boost: object) -> None:
    """A phrase that should be avoided is left out, and one with a boost that is no number has the usual weight."""
    wishes = riva_wishes({"speech_contexts": [{"phrases": ["Ada"], "boost": boost}]}, False)
    assert [each["weight"] for each in started(wishes)["hotwords"]] == ([] if boost == -4.0 else [1.0])


@pytest.mark.parametrize(
    "read", [lambda config: riva_wishes(config, False), lambda config: google_v1_wishes(config, {})]
)
@pytest.mark.parametrize(
    ("config", "beginning", "samples"),
    [
        ({"encoding": "LINEAR16", "sample_rate_hertz": 8000}, b"\0\0", "pcm_s16le"),
        ({"encoding": "LINEAR16", "sample_rate_hertz": 8000}, b"RIFF....WAVE", None),
        ({"encoding": "LINEAR_PCM"}, b"RIFF....WAVE", None),
        ({"encoding": "MULAW", "sample_rate_hertz": 8000}, b"\0", "mulaw"),
        ({"encoding": "ALAW", "sample_rate_hertz": 8000}, b"\0", "alaw"),
        ({"encoding": "FLAC", "sample_rate_hertz": 8000}, b"fLaC", None),
        ({"encoding": "OGG_OPUS"}, b"OggS", None),
        ({}, b"\x1aE\xdf\xa3", None),
        ({}, b"anything", None),
        ({"sample_rate_hertz": 16_000}, b"\0\0", "pcm_s16le"),
        ({"sample_rate_hertz": 16_000}, b"fLaC", None),
    ],
)
def test_encodings(read: Callable[[JsonObject], Wishes], config: JsonObject, beginning: bytes, samples: object) -> None:
    """A container is known by what the client says, or by how its audio begins."""
    assert read(config).samples(beginning) == samples


@pytest.mark.parametrize("config", [{"encoding": "AMR"}, {"encoding": "77"}, {"encoding": "LINEAR16"}])
def test_audio_that_cannot_be_decoded(config: JsonObject) -> None:
    """An encoding that nothing decodes, and samples without a rate, are refused."""
    with pytest.raises(WireError):
        google_v1_wishes(config, {}).samples(b"\0\0")


@pytest.mark.parametrize(
    ("sensitivity", "pause"),
    [
        ("ENDPOINTING_SENSITIVITY_SUPERSHORT", {"after_text_ms": 400}),
        ("ENDPOINTING_SENSITIVITY_SHORT", {"after_text_ms": 600}),
        ("ENDPOINTING_SENSITIVITY_STANDARD", {}),
    ],
)
def test_the_end_of_a_segment(sensitivity: str, pause: object) -> None:
    """Google says how long a pause is in words, and Riva in milliseconds, which are kept within bounds."""
    assert started(google_v2_wishes({}, {"endpointing_sensitivity": sensitivity}))["endpoint"] == pause
    short = riva_wishes({"endpointing_config": {"stop_history": 100, "stop_history_eou": 50}}, False)
    assert started(short)["endpoint"] == {"after_text_ms": 400}


def test_fields_of_the_wrong_kind() -> None:
    """Whatever stands there, nothing fails."""
    wild: JsonObject = {field.v1: [1] for field in FIELDS if field.v1 != NO_FIELD}
    for wishes in (riva_wishes(wild, False), google_v1_wishes(wild, wild), google_v2_wishes(wild, wild)):
        assert started(wishes)["model"] == "default"
