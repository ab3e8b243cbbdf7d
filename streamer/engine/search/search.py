"""The interface between the recogniser and its searches, and its types.

A search turns emissions (log-probabilities per frame) into words. For the shipped model, there are `BeamSearch` and
`GreedySearch`; public models have others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, Protocol

from streamer.base.limits import HOTWORD_WEIGHT
from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.text.marks import MarkedWord
from streamer.engine.waiting import Work

BLANK = 0


@dataclass(frozen=True)
class HypothesisWord:
    """A word of a hypothesis, and the emission frames of its segment that it covers (`end` is exclusive)."""

    text: str
    start: int
    end: int
    confidence: float  # the geometric mean of the posteriors of its phones
    share: float = 1.0  # the probability of all hypotheses with this word at about this time; `finish` sets it
    marked: MarkedWord | None = None  # the mark and the capitals that a reader has written; a search writes none


@dataclass(frozen=True)
class Hotword:
    """A word or phrase that a stream expects. Weight 1 is the default, and weight 0 has no effect.

    A client sends it as `streamer.wire.options.Hotword`. `written` replaces it in results, if it is not empty.
    """

    text: str
    weight: float = HOTWORD_WEIGHT
    written: str = ""


@dataclass(frozen=True)
class Hypothesis:
    """The best words of a segment so far. The first `stable` of them will not change.

    `running` has the first frame, and the frame after the last one, of a word that has begun but is not known yet.
    """

    words: tuple[HypothesisWord, ...]
    stable: int
    running: tuple[int, int] | None = None


NO_WORDS = Hypothesis((), 0)

LikelyWords = tuple[tuple[HypothesisWord, ...], float]
"""The words of a hypothesis, and their probability among all hypotheses of the search."""


class Search(Protocol):
    """Keeps the hypotheses of every slot, and advances those of a batch together."""

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Prepare this slot for its next stream. The work must be finished before `reset`.

        Words that ended `settle_frames` frames ago no longer change; 0 means that words are not settled by their age.
        Other slots may advance between the parts of the work. ValueError for a hotword that cannot be used, and NotNow
        if there is no room for it now.
        """

    def release(self, slot: int) -> None:
        """Free what `prepare` took, because the stream in this slot has ended, or its preparation was cancelled."""

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order. Change no state."""

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return up to `number` different texts of a slot if the segment ended here, likeliest first.

        The first one is the text that `finish` returns.
        """


# The options of the prefix beam search: its width, weights and thresholds.

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
