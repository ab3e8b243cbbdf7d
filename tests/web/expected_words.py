"""What the Python client gets for a recording, and how similar words are."""

from __future__ import annotations

import copy
import re
from difflib import SequenceMatcher
from typing import Any

from streamer.client import transcribe
from tests.bridge.service_client import Event


def of(told: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in told if event["event"] == kind]


def words(told: list[dict[str, Any]]) -> str:
    return " ".join(event["text"] for event in of(told, "final"))


async def undisturbed(url: str, audio: bytes, **options: Any) -> list[Event]:
    """What the Python client gets for this audio from any service with the same model."""
    asked = (audio, *sorted(options.items()))
    if asked not in _undisturbed:
        told: list[Any] = [event async for event in transcribe([audio], url, options=options)]
        _undisturbed[asked] = told
    return copy.deepcopy(_undisturbed[asked])


_undisturbed: dict[tuple[Any, ...], list[Event]] = {}


def alike(given: str, right: str) -> float:
    """The share of words in common, in order."""
    return SequenceMatcher(None, as_said(given), as_said(right), autojunk=False).ratio()


def as_said(text: str) -> list[str]:
    """The words without marks and capitals. *We're* and *we are* are the same."""
    return re.sub(r"[^\w' ]", "", text.lower()).replace("'re ", " are ").split()
