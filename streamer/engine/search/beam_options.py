"""The options of the prefix beam search: its width, weights and thresholds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

SECOND_PASS: Final = "second_pass"
# Both passes share tables that depend on these options.
_SHARED: Final = {"language_weight", "word_bonus", "hotword_bonus", "hotword_floor", "hotword_lent"}


@dataclass(frozen=True)
class BeamOptions:
    """The width, weights and thresholds of a beam search, as in `search.json` of a bundle."""

    beam: int = 32  # the most hypotheses of a stream
    tokens: int = 8  # how many of the likeliest phones may extend a hypothesis in a frame
    endings: int = 16  # the most words that may end in a frame
    language_weight: float = 1.0
    word_bonus: float = 0.0
    end_weight: float = 0.0  # the weight of the probability that a sentence ends where the segment ends
    blank_penalty: float = 0.0
    boundary_floor: float = 0.02  # no word ends in a frame in which the boundary is less likely than this
    blank_ceiling: float = 0.98  # a frame whose blank is at least this likely has no other units
    hotword_bonus: float = 5.5  # the natural log of the factor for each word of a hotword of weight 1
    hotword_floor: float = -10.0  # the natural log of the probability of a word that the language model does not have
    hotword_lent: float = 0.5  # the part of the bonus that a phrase gets in advance, before its last word
    rescored: int = 8  # for how many alternatives the neural language model scores the end of the sentence
    rescoring_floor: float = 0.0  # words are not rescored while their hypothesis is less likely than this
    neural_share: float = 0.5  # the share of the neural model in the mixture with the n-gram model
    neural_weight: float = 1.0  # the weight of the gain of a word
    neural_end_weight: float = 1.0  # the weight of the gain of the end of the sentence

    def __post_init__(self) -> None:
        for field in fields(self):
            value, whole = getattr(self, field.name), isinstance(field.default, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise ValueError(f"{field.name} must be a {'whole ' if whole else ''}number, not {value!r}")
            if whole and value < 1:
                raise ValueError(f"{field.name} must be at least 1, not {value}")

    @classmethod
    def load(cls, path: Path | str, *, second_pass: bool = False) -> BeamOptions:
        """Read `search.json`, with its values for the second pass if wanted. ValueError says what is wrong with it."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold a JSON object")
        others = values.pop(SECOND_PASS, {})
        if not isinstance(others, dict):
            raise ValueError(f"{path}: {SECOND_PASS} must be a JSON object")
        if misplaced := others.keys() & _SHARED:
            raise ValueError(f"{path}: {', '.join(sorted(misplaced))} must be the same in both passes")
        unknown = (values | others).keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"{path} has unknown options: {', '.join(sorted(unknown))}")
        return cls(**(values | others if second_pass else values))

    def save(self, path: Path) -> None:
        """Write `search.json`. Its values for the second pass stay."""
        existing = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        others = {SECOND_PASS: existing[SECOND_PASS]} if SECOND_PASS in existing else {}
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(asdict(self) | others, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)
