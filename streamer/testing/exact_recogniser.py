"""The recogniser with the exact model, which may have a fault."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamer.engine.recogniser import AnswerOrRest, Chunk, Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_repository import Fault
from streamer.testing.exact_speech import UNITS

if TYPE_CHECKING:
    from streamer.engine.punctuation.punctuation_model import PunctuationModel

HANG_S = 12.0
FOREVER_S = 3600.0
HANG_FILE = "hang"


def exact_recogniser(slots: int, idle_limit_s: float = 20.0, punctuation: PunctuationModel | None = None) -> Recogniser:
    """Return a recogniser that reads letters from the level of the audio, with any search."""
    return Recogniser(ExactModel(), searches(slots), slots=slots, punctuation=punctuation, idle_limit_s=idle_limit_s)


class FaultyRecogniser(Recogniser):
    """An exact recogniser with a fault."""

    def __init__(self, fault: Fault, folder: Path, slots: int, idle_limit_s: float) -> None:
        super().__init__(ExactModel(), searches(slots), slots=slots, idle_limit_s=idle_limit_s)
        self._fault = fault
        self._folder = folder

    def open(self, stream: int, options: StreamOptions | None = None, *, at_once: bool = True) -> None:
        """Open a stream. With the fault `hangs` this takes a long time."""
        if self._fault == "hangs" and not self.live:
            time.sleep(HANG_S)
        super().open(stream, options, at_once=at_once)

    def step_without_waiting(self, chunks: Sequence[Chunk]) -> Iterator[AnswerOrRest]:
        """Compute a batch. Depending on the fault, this fails, gives no events or never ends."""
        if self._fault == "fails":
            raise RuntimeError("no audio")
        if self._fault == "hangs later" and (self._folder / HANG_FILE).exists():
            time.sleep(FOREVER_S)
        for index, answer in super().step_without_waiting(chunks):
            yield (index, []) if self._fault == "says nothing" and isinstance(answer, list) else (index, answer)


def searches(slots: int) -> dict[str, GreedySearch]:
    """Return the searches that sessions may ask for."""
    return {name: GreedySearch(UNITS, slots) for name in ("lexicon", "greedy")}
