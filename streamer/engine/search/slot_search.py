"""The search of one stream, and that of its second pass, as the stream uses them at the end of a segment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from streamer.engine.models.acoustics import Acoustics
from streamer.engine.search.search import NO_WORDS, Hypothesis, LikelyWords, Search
from streamer.engine.work.parts import Work

_SEARCHED_FRAMES = 8  # of a whole segment at a time: so often the words that ended are rescored


@dataclass(frozen=True)
class SlotSearch:
    """Asks a search about one slot. `second` is the search that reads whole segments."""

    search: Search
    slot: int
    second: Search
    acoustics: Acoustics

    def again(self, segment: Any) -> Work[tuple[Hypothesis, SlotSearch]]:
        """Search once more, in a whole segment. Returns the hypothesis of the last step, and whom to ask for more."""
        emissions, found = self.acoustics.whole(segment), NO_WORDS
        yield
        self.second.reset([self.slot])
        frames = len(next(iter(emissions.values()))[0])
        for first in range(0, frames, _SEARCHED_FRAMES):
            step = {head: values[:, first : first + _SEARCHED_FRAMES] for head, values in emissions.items()}
            [found] = self.second.advance([self.slot], step)
            yield
        return found, replace(self, search=self.second)

    def finish(self) -> Hypothesis:
        """The hypothesis if the segment ended here."""
        return self.search.finish([self.slot])[0]

    def alternatives(self, number: int) -> list[LikelyWords]:
        """The likeliest hypotheses if the segment ended here."""
        return self.search.alternatives(self.slot, number)
