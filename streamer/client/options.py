"""The options of a session, for type checkers and editors.

Made by `python scripts/docs/options_page.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class Options(TypedDict, total=False):
    """The options of a session. docs/reference/protocol.md explains them."""

    encoding: Literal["pcm_s16le", "pcm_f32le", "mulaw", "alaw"]
    sample_rate: int
    channels: int
    multichannel: bool
    live: bool
    model: str
    speakers: bool | int
    speaker_names: Sequence[str]
    voices: Sequence[Mapping[str, str]]
    context: Sequence[Mapping[str, Any] | None]
    webhook: str
    resume: Mapping[str, Any]
    step_ms: Literal[160, 320, 640]
    search: Literal["lexicon", "greedy", "beam"]
    language: str
    translate: bool
    prompt: str
    hotwords: Sequence[str | Mapping[str, Any]]
    endpoint: Literal["off"] | Mapping[str, Any]
    settle_ms: int
    second_pass: bool | Literal["reader"]
    partials: bool | Literal["reader"]
    stability: Literal["low", "medium", "high"]
    partial_words: bool
    words: bool
    alternatives: int
    written: bool
    dictation: bool
    profanity: Literal["keep", "mask", "remove"]
    speech: bool
    turns: bool
