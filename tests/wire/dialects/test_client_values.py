"""Values that clients of other services send: what is read, and what is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from streamer.base.json_types import JsonObject
from streamer.wire.dialects.client_values import (
    any_part,
    command_of,
    flag,
    languages_of,
    number,
    part,
    refuse,
    samples,
    texts,
    whole,
)
from streamer.wire.errors import WireError
from tests.wire.dialects.dialect_steps import MODELS


def test_messages() -> None:
    """Only an object that is not too long is one."""
    assert command_of('{"type":"a"}') == {"type": "a"}
    assert [command_of(text) for text in ("{", "[1]", "[" * 5000, '"a"', '{"a":"' + "b" * 70_000 + '"}')] == [None] * 5


def test_parts() -> None:
    """An object within another one may be missing. What is none is refused, or left out."""
    message: JsonObject = {"a": {"b": 1}, "c": None, "d": []}
    for read in (part, any_part):
        assert [read(message, name) for name in ("a", "c", "e")] == [{"b": 1}, {}, {}]
    assert (any_part(message, "d"), any_part([], "a")) == ({}, {})
    with pytest.raises(WireError, match="'d' must be an object"):
        part(message, "d")


def test_samples() -> None:
    """Audio is base64, also if it is empty."""
    assert (samples("audio", "AAE="), samples("audio", "")) == (b"\0\1", b"")
    for value in (None, 5, "?", "AAE", "AA E="):
        with pytest.raises(WireError, match="'audio' must be a string in base64"):
            samples("audio", value)


def test_flags() -> None:
    """Each language writes them in its own way; nothing is off."""
    assert [flag("a", value) for value in ("True", "1", True, 1)] == [True] * 4
    assert [flag("a", value) for value in ("", "False", "null", None, False, 0)] == [False] * 6


def test_numbers() -> None:
    """They may come as text."""
    assert (number("a", "0.4", (0, 1)), number("a", 1, (0, 1)), whole("a", "16000.0", (1, 20_000))) == (0.4, 1, 16_000)


def test_lists() -> None:
    """They may come as JSON, or as one text."""
    assert [texts("a", value) for value in ('["x","y"]', ["x", "y"], "x", None)] == [["x", "y"], ["x", "y"], ["x"], []]


@pytest.mark.parametrize(
    "read",
    [
        partial(flag, "a", "perhaps"),
        partial(flag, "a", []),
        partial(number, "a", "much", (0, 1)),
        partial(number, "a", True, (0, 1)),
        partial(number, "a", float("nan"), (0, 1)),
        partial(number, "a", 10**400, (0, 1)),
        partial(number, "a", 2, (0, 1)),
        partial(texts, "a", "[1"),
        partial(texts, "a", "[" * 5000),
        partial(texts, "a", [1]),
        partial(texts, "a", {}),
    ],
)
def test_what_makes_no_sense(read: Callable[[], object]) -> None:
    """The sentence names the option, and says what is right."""
    with pytest.raises(WireError, match=r"'a' must be .*not"):
        read()


def test_refusals() -> None:
    """An option that is only switched off is no reason for one."""
    reasons = {"redact": "nothing is redacted"}
    for value in ("false", "", None, False):
        refuse({"redact": value}, reasons)
    with pytest.raises(WireError, match=r"'redact' is not supported: nothing is redacted\. Leave it out\."):
        refuse({"redact": "pii"}, reasons)


def test_languages() -> None:
    """A model that is not there means the usual one."""
    assert (languages_of("fine", MODELS), languages_of("nova", MODELS)) == (("auto", "de-DE"), ())
