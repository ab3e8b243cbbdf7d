"""The figures about speed and capacity in the pages: where they stand, and what they must be.

A place is a sentence with the names of figures in it. Only the numbers of a page are replaced, so its lines stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workshop.figures.measured import Figures

ROOT: Final = Path(__file__).parents[2]
_NAME: Final = re.compile(r"<(\w+)(?::([^>]*))?>")
_NUMBER: Final = r"(\d+(?:\.\d+)?)"
# What a page may not say of its own: how many sessions something carries.
CLAIM: Final = re.compile(r"\b(?:carr(?:y|ies|ied))\s+(?:about\s+)?\[?(?:about\s+)?(\d+)\b")


@dataclass(frozen=True)
class Place:
    """A sentence of a page. `<name:format>` stands for a figure, and a space for any space between words."""

    page: str
    sentence: str

    def pattern(self) -> re.Pattern[str]:
        """Return what finds the sentence with any numbers in it."""
        parts = _NAME.split(self.sentence)
        text = (re.escape(part).replace(r"\ ", r"\s+") for part in parts[::3])
        return re.compile(_NUMBER.join(text))

    def numbers(self, figures: Figures) -> list[str]:
        """Return the numbers that should stand there."""
        return [format(figures.figures[name].value, form or ".0f") for name, form in _NAME.findall(self.sentence)]


class NotThere(Exception):
    """A page does not have a sentence once. The message says which."""


def with_figures(text: str, place: Place, figures: Figures) -> str:
    """Return the text of a page with the right numbers in this place. NotThere if it has no such sentence."""
    matches = list(place.pattern().finditer(text))
    if len(matches) != 1:
        raise NotThere(f"{place.page} has {len(matches)} times: {place.sentence}")
    [match] = matches
    for number, value in reversed(list(enumerate(place.numbers(figures), 1))):
        text = text[: match.start(number)] + value + text[match.end(number) :]
    return text


def pages(figures: Figures, root: Path = ROOT) -> Iterator[tuple[Path, str, str]]:
    """Yield each page with figures: its path, its text, and the text that it should have."""
    by_page: Mapping[str, list[Place]] = {name: [] for name in dict.fromkeys(place.page for place in PLACES)}
    for place in PLACES:
        by_page[place.page].append(place)
    for page, places in by_page.items():
        text = right = (root / page).read_text(encoding="utf-8")
        for place in places:
            right = with_figures(right, place, figures)
        yield root / page, text, right


def claims(text: str, places: list[Place]) -> Iterator[str]:
    """Yield each claim of a page about numbers of sessions that stands in no place."""
    known = [match.span() for place in places for match in place.pattern().finditer(text)]
    for match in CLAIM.finditer(text):
        if not any(start <= match.start(1) < end for start, end in known):
            yield " ".join(match[0].split())


_README: Final = "README.md"
_CAPACITY: Final = "docs/how-to/capacity.md"
_DEPLOYMENT: Final = "docs/how-to/deployment.md"
_KUBERNETES: Final = "deploy/kubernetes"

PLACES: Final = (
    Place(_README, "two cores carry [<sessions> live sessions, and <carried> if all have a second pass]"),
    Place(_README, "A live session costs <cost:.1f> % of a core, and <cost_second_pass:.1f> % with a second pass."),
    Place(
        _README, "`streamer serve` carries <sessions> sessions on two cores, and <carried> if all have a second pass"
    ),
    Place(_README, "`--sessions auto` admits <auto>"),
    Place(
        _CAPACITY,
        "| What does a live session cost? | <cost:.1f> % of a core, <cost_second_pass:.1f> % with a second pass",
    ),
    Place(_CAPACITY, "and <cost_one:.1f> % if there are few sessions"),
    Place(_CAPACITY, "without second passes? | <sessions> with the last words"),
    Place(_CAPACITY, "all with a second pass? | <sessions_second_pass>:"),
    Place(_CAPACITY, "And with a reader (Moonshine tiny)? | <sessions_reader>:"),
    Place(_CAPACITY, "`--sessions auto` admit there? | <auto>:"),
    Place(_CAPACITY, "How many slots has 2 GB room for? | <slots_2gb>,"),
    Place(_CAPACITY, "| 4 GB? | <slots_4gb> in"),
    Place(_CAPACITY, "| 8 GB? | <slots_8gb> in"),
    Place(_DEPLOYMENT, "Two cores carry <sessions> sessions without second passes, and <carried> if all have one"),
    Place(_DEPLOYMENT, "when each has more than <scaled> slots in use"),
    Place(f"{_KUBERNETES}/overlays/cpu/kustomization.yaml", "carry <sessions> sessions, or <carried> if all have a"),
    Place(f"{_KUBERNETES}/overlays/small/settings.yaml", 'STREAMER_SERVE_SESSIONS: "<carried>"'),
    Place(
        f"{_KUBERNETES}/components/autoscaling/autoscalers.yaml",
        'streamer_slots_live} target: {type: AverageValue, averageValue: "<scaled>"}',
    ),
    Place(
        f"{_KUBERNETES}/components/keda/scaled-objects.yaml",
        """streamer_slots_live{namespace="streamer"})' threshold: "<scaled>\"""",
    ),
)
