"""False alarms and misses of a keyword spotter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamer.engine.heads.keyword_spotter import Frames, KeywordNetwork, KeywordSpotter
from streamer.engine.heads.passage import Passage
from streamer.training.keywords.material import FRAME_MS, Spoken

TOLERANCE_MS = 600  # between the end of a word and the time that is told
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class KeywordErrors:
    """What a spotter told of some speech."""

    hours: float
    said: Counter[str]
    told: Counter[str]  # of those that were said
    false: Counter[str]

    @property
    def false_an_hour(self) -> float:
        """False alarms in an hour of speech, of all words together."""
        return sum(self.false.values()) / self.hours if self.hours else 0.0

    @property
    def missed(self) -> float:
        """The share of the words said that were not told."""
        return 1 - sum(self.told.values()) / max(1, sum(self.said.values()))


def errors(network: KeywordNetwork, material: Sequence[Spoken]) -> KeywordErrors:
    """Let a spotter listen to this speech."""
    said, told, false = Counter[str](), Counter[str](), Counter[str]()
    spotter = KeywordSpotter(network, slots=1)
    for spoken in material:
        size = len(spoken.frames)
        passage = Passage(step=size, steps=1, received=size * FRAME_MS * 16)
        [found] = spotter.listen([Frames(1, passage, spoken.frames, start=True, end=True)])
        waiting = [(network.words[keyword.word], keyword.end * FRAME_MS) for keyword in spoken.keywords]
        said.update(word for word, _ in waiting)
        for keyword in found:
            near = [
                each for each in waiting if each[0] == keyword.word and abs(each[1] - keyword.at_ms) <= TOLERANCE_MS
            ]
            if near:
                waiting.remove(near[0])
                told[keyword.word] += 1
            else:
                false[keyword.word] += 1
    return KeywordErrors(sum(each.hours for each in material), said, told, false)


def with_threshold(network: KeywordNetwork, material: Sequence[Spoken], most_false: float) -> KeywordNetwork:
    """The network with the lowest threshold that keeps the false alarms an hour below a number, if one does."""
    for threshold in THRESHOLDS:
        chosen = replace(network, threshold=threshold)
        if errors(chosen, material).false_an_hour <= most_false:
            break
    return chosen
