"""What tests of dialects say to them, and how they read the steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from streamer.base.events import Final, Partial, ServerMessage, Word
from streamer.wire.dialects.dialect import Dialect, Opening, Reply, Step

MODELS = {"default": (), "fine": ("auto", "de-DE")}
Kind = TypeVar("Kind", bound=Dialect)


def opened(kind: type[Kind], query: str = "") -> Kind:
    """Open a websocket with this query."""
    pairs = tuple((name, value) for name, _, value in (pair.partition("=") for pair in query.split("&")))
    return kind(Opening(pairs, {}, MODELS, "ab-12"))


def take(dialect: Dialect, *messages: str | bytes) -> list[Step]:
    """Take messages of the client, and return all steps."""
    return [step for message in messages for step in dialect.receive(message)]


def replies(steps: Iterable[Step]) -> list[Any]:
    """Return the replies among these steps, read as JSON."""
    return [json.loads(step.text) for step in steps if isinstance(step, Reply)]


def started(steps: Iterable[Step]) -> dict[str, Any]:
    """Return the options of the only session that these steps start."""
    [start] = [step for step in steps if isinstance(step, str) and '"start"' in step]
    content: dict[str, Any] = json.loads(start)
    return content


def told(dialect: Dialect, *messages: ServerMessage) -> list[Any]:
    """Return what the client is told about these messages, read as JSON."""
    return [json.loads(text) for message in messages for text in dialect.tell(message)]


def words(text: str, start_ms: int, confidence: float | None = 0.5) -> tuple[Word, ...]:
    """Return words of 100 ms that follow each other."""
    return tuple(
        Word(word, start_ms + 100 * number, start_ms + 100 * (number + 1), confidence)
        for number, word in enumerate(text.split())
    )


def partial(text: str, start_ms: int = 0, audio_ms: int = 1000) -> Partial:
    """Return a partial with the times of its words."""
    return Partial(0, text, 0, start_ms, audio_ms, words(text, start_ms, None))


def final(text: str, start_ms: int = 0, cut_ms: int = 1000) -> Final:
    """Return a final that was cut there."""
    spoken = words(text, start_ms)
    return Final(0, text, start_ms, spoken[-1].end_ms, cut_ms, 0.5, spoken, cut_ms=cut_ms)


def stands_on_the_page(marker: str, options: Mapping[str, str]) -> bool:
    """Return whether the table behind this comment on the page has these options with their meanings, and no other."""
    page = Path("docs/reference/compatibility.md").read_text()
    table = page.partition(f"<!-- {marker}")[2].partition("\n\n")[0]
    return table.splitlines()[3:] == [f"| `{name}` | {meaning} |" for name, meaning in options.items()]
