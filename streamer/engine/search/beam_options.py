"""What a prefix beam search is told: how wide it is and how it weighs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class BeamOptions:
    """How wide a search is and how it weighs; `search.json` of a bundle."""

    beam: int = 32  # hypotheses of a stream
    tokens: int = 8  # phones by which they may grow in a frame
    endings: int = 16  # words that may end in a frame
    language_weight: float = 1.0
    word_bonus: float = 0.0
    end_weight: float = 0.0  # of the language model in that a sentence ends where a segment does
    blank_penalty: float = 0.0
    boundary_floor: float = 0.02  # no word ends in a frame whose boundary is less likely than this
    blank_ceiling: float = 0.98  # a frame whose blank is at least that likely is read as a blank and nothing else
    hotword_bonus: float = 5.5  # what a hotword of weight 1 is worth, for each of its words, in natural logs
    hotword_floor: float = -10.0  # the language model's natural log of a word that it does not know
    hotword_lent: float = 0.5  # the part of the bonus that the first words of a phrase have until it goes on

    def __post_init__(self) -> None:
        for field in fields(self):
            value, whole = getattr(self, field.name), isinstance(field.default, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise ValueError(f"{field.name} must be a {'whole ' if whole else ''}number, not {value!r}")
            if whole and value < 1:
                raise ValueError(f"{field.name} must be at least 1, not {value}")

    @classmethod
    def load(cls, path: Path | str) -> BeamOptions:
        """Read `search.json`; ValueError says what is wrong with it."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold a JSON object")
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"{path} has options that the search does not know: {', '.join(sorted(unknown))}")
        return cls(**values)
