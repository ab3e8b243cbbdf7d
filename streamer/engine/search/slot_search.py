"""The searches of one stream for its first and second pass, as the stream uses them at the end of a segment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from streamer.engine.models.acoustics import Acoustics
from streamer.engine.search.search import NO_WORDS, Hypothesis, LikelyWords, Search
from streamer.engine.work.parts import Work

_STEP_FRAMES = 8  # a whole segment is searched in steps of this many frames, after which words are rescored


@dataclass(frozen=True)
class SlotSearch:
    """The search of one slot. `second` is the search that reads whole segments."""

    search: Search
    slot: int
    second: Search
    acoustics: Acoustics

    def again(self, segment: Any) -> Work[tuple[Hypothesis, SlotSearch]]:
        """Search a whole segment again. Return the hypothesis of the last step, and the search for its alternatives."""
        emissions, hypothesis = self.acoustics.whole(segment), NO_WORDS
        yield
        self.second.reset([self.slot])
        frames = len(next(iter(emissions.values()))[0])
        for first in range(0, frames, _STEP_FRAMES):
            step = {head: values[:, first : first + _STEP_FRAMES] for head, values in emissions.items()}
            [hypothesis] = self.second.advance([self.slot], step)
            yield
        return hypothesis, replace(self, search=self.second)

    def finish(self) -> Hypothesis:
        """Return the hypothesis if the segment ended here."""
        return self.search.finish([self.slot])[0]

    def alternatives(self, number: int) -> list[LikelyWords]:
        """Return the likeliest hypotheses if the segment ended here."""
        return self.search.alternatives(self.slot, number)
