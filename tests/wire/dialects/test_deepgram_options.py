"""What the options of Deepgram's clients become, and which of them are refused."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.wire.dialects.deepgram_options import (
    CONTAINED,
    ENCODINGS,
    OPTIONS,
    REFUSED_ENCODINGS,
    DeepgramOptions,
    Samples,
    Treatment,
)
from streamer.wire.errors import WireError
from tests.project import DOCS


def options(*query: tuple[str, str]) -> DeepgramOptions:
    """Options of a query, at a service with several models, one of them of several languages and one not loaded yet."""
    return DeepgramOptions(query, {"default": (), "german": (), "several": ("auto", "de-DE", "en-GB"), "later": None})


@pytest.mark.parametrize("off", ["false", "False", "", "null", "0", "None"])
def test_what_is_switched_off_is_never_refused(off: str) -> None:
    """Plugins send a dozen options that say no. None of them changes anything."""
    nothing, everything = options(), options(*((option.name, off) for option in OPTIONS))
    # Only this one means something when it is off.
    said = everything.speech_final, everything.after_text_ms
    assert said == ((False, None) if off.lower() in ("false", "null", "none") else (True, 400))
    others = set(vars(nothing)) - {"_query", "speech_final", "after_text_ms"}
    assert {name: vars(everything)[name] for name in others} == {name: vars(nothing)[name] for name in others}


@pytest.mark.parametrize(
    ("name", "value", "field", "found"),
    [
        ("model", "nova-3", "model", "default"),
        ("model", "german", "model", "german"),
        ("language", "en-US", "model", "default"),
        ("endpointing", "25", "after_text_ms", 400),
        ("endpointing", "true", "after_text_ms", 400),
        ("endpointing", "1200", "after_text_ms", 1200),
        ("endpointing", "99999", "after_text_ms", 10_000),
        ("punctuate", "True", "punctuated", True),
        ("smart_format", "true", "written", True),
        ("smart_format", "true", "paragraphs", True),
        ("paragraphs", "true", "written", True),
        ("punctuate", "true", "paragraphs", False),
        ("diarize", "true", "diarize", True),
        ("diarize", "2024-02-01", "diarize", True),
        ("numerals", "true", "written", True),
        ("numerals", "true", "punctuated", False),
        ("dictation", "true", "written", True),
        ("utt_split", "0.1", "split_ms", 400),
        ("utt_split", "1.5", "split_ms", 1500),
        ("keyterm", "Ada Lovelace", "hotwords", ({"text": "Ada Lovelace", "weight": 1.0},)),
        ("keywords", "Ada", "hotwords", ({"text": "Ada", "weight": 1.0},)),
        ("keywords", "Ada:2.5", "hotwords", ({"text": "Ada", "weight": 2.5},)),
        ("keywords", "Ada:50", "hotwords", ({"text": "Ada", "weight": 5.0},)),
        ("keywords", "Ada:-3", "hotwords", ()),
        ("keyterm", "x" * 100, "hotwords", ()),
        ("colour", "red", "model", "default"),
    ],
)
def test_one_option(name: str, value: str, field: str, found: Any) -> None:
    """Each by itself; an unknown one breaks nothing."""
    assert getattr(options((name, value)), field) == found


def test_the_language() -> None:
    """A model with a choice gets the language by its own name. A model that is not loaded yet decides later."""
    several, later = ("model", "several"), ("model", "later")
    for given, told in {"de": "de-DE", "en-gb": "en-GB", "multi": "auto", "": "auto"}.items():
        assert options(several, ("language", given)).session()["language"] == told
    for given, told in {"de": "de", "en-US": "auto", "multi": "auto", "": "auto"}.items():
        assert options(later, ("language", given)).session()["language"] == told
    for given in ("en-US", "multi"):
        assert options(("language", given)).session()["language"] == "auto"
    with pytest.raises(WireError, match="'language' must be one of auto, de-DE, en-GB, not \"nl\""):
        options(several, ("language", "nl"))
    with pytest.raises(WireError, match="the name of a language"):
        options(later, ("language", "no language"))


def test_the_language_that_is_reported() -> None:
    """It is reported if it can be only one; what a model of several languages found out is not known here."""
    wanted, several, later = ("detect_language", "true"), ("model", "several"), ("model", "later")
    assert options().detected_language is None
    assert options(wanted).detected_language == "en"
    assert options(("detect_language", "de")).detected_language == "en"
    assert options(wanted, several).detected_language is None
    assert options(wanted, several, ("language", "de")).detected_language == "de-DE"
    assert options(wanted, later).detected_language is None


def test_the_end_of_an_utterance_needs_interim_results() -> None:
    """`utterance_end_ms` counts only with interim results, and is at least a second."""
    assert options(("utterance_end_ms", "1500")).utterance_end_ms is None
    wanted = ("interim_results", "true")
    assert options(wanted, ("utterance_end_ms", "1500")).utterance_end_ms == 1500
    assert options(wanted, ("utterance_end_ms", "100")).utterance_end_ms == 1000


def test_samples_need_a_rate() -> None:
    """A container has its own, whatever the query says."""
    for name, native in ENCODINGS.items():
        found = options(("encoding", name), ("sample_rate", "8000"), ("channels", "2"))
        assert found.samples == Samples(native, 8000, 2)
        with pytest.raises(WireError, match="'sample_rate' is needed"):
            options(("encoding", name))
    for name in ("", *CONTAINED):
        assert options(("encoding", name), ("sample_rate", "48000")).samples is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *(
            (option.name, "true", f"'{option.name}' is not supported: {option.meaning}. Leave it out.")
            for option in OPTIONS
            if option.treatment is Treatment.REFUSED
        ),
        *(("encoding", name, "'encoding' must be one of linear16, linear32") for name in REFUSED_ENCODINGS),
        ("language", "de", "the recogniser knows only English"),
        ("interim_results", "perhaps", "must be true or false"),
        ("endpointing", "soon", "must be a whole number"),
        ("endpointing", "-5", "must be a whole number"),
        ("channels", "two", None),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(name: str, value: str, words: str | None) -> None:
    """The client gets the refusal of an option before it sends audio."""
    audio = [] if name == "encoding" else [("encoding", "linear16"), ("sample_rate", "16000")]
    with pytest.raises(WireError, match=words):
        options(*audio, (name, value))


def test_the_documentation_lists_every_option() -> None:
    """The documentation has every option with its treatment, in the same words and order."""
    page = (DOCS / "reference" / "compatibility.md").read_text(encoding="utf-8")
    rows = [f"| `{option.name}` | {option.treatment.value} | {option.meaning} |" for option in OPTIONS]
    assert "\n".join(rows) in page
    for name in (*ENCODINGS, *CONTAINED, *REFUSED_ENCODINGS):
        assert f"`{name}`" in page.partition("### Audio")[2]


def test_hotwords_have_a_bound() -> None:
    """A list of hotwords beyond the bound is cut, and each counts once."""
    assert (
        len(options(*(("keyterm", f"word {chr(97 + n % 26)}{chr(97 + n // 26)}") for n in range(300))).hotwords) == 200
    )
    assert len(options(*(("keyterm", f"word {'abcdefghij'[n % 10]}") for n in range(300))).hotwords) == 10
