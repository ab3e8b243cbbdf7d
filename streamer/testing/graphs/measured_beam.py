"""The beam search of transducers, with the margins of its decisions."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.engine.graphs.search.transducer_beam import Candidate, TransducerBeamSearch
from streamer.engine.graphs.search.transducer_graphs import TransducerGraphs
from streamer.engine.search.search import Hotword
from streamer.engine.work.parts import Work

_NONE = float("inf")


class MeasuredBeamSearch(TransducerBeamSearch):
    """Notes the margins of a segment: the least difference of two scores that decided anything.

    Scores decide which candidates go on, which of two equal sequences gives the times, and which hypothesis is shown.
    """

    def __init__(self, tokens: Sequence[str], graphs: TransducerGraphs, phrases: PhraseTokens, slots: int) -> None:
        super().__init__(tokens, graphs, phrases, slots)
        self.hotwords: list[tuple[Hotword, ...]] = [()] * slots
        """The hotwords of the stream in each slot."""
        self._margins = [_NONE] * slots

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Set the options of the next stream in this slot, and note its hotwords."""
        self.hotwords[slot] = tuple(hotwords)
        yield from super().prepare(slot, hotwords, settle_frames, caller)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._margins[slot] = _NONE

    def margin(self, slot: int) -> float:
        """Return the least margin of the running segment, if it ended here."""
        beam = self._beams[slot]
        before = len(self._graphs.start) + len(beam.settled)
        first, *others = sorted((one.score / (before + len(one.tokens)) for one in beam.hypotheses), reverse=True)
        return min([self._margins[slot], *(first - other for other in others)])

    def _chosen(self, slot: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        chosen = super()._chosen(slot, candidates)
        gaps = [candidates[len(chosen)].less - chosen[-1].less] if len(candidates) > len(chosen) else []
        best: dict[tuple[int, ...], float] = {}
        for candidate in chosen:
            before = self._beams[slot].hypotheses[candidate.place].numbers
            numbers = before if candidate.number in self._graphs.silent else (*before, candidate.number)
            if numbers in best:
                gaps.append(candidate.less - best[numbers])
            best.setdefault(numbers, candidate.less)
        self._margins[slot] = min([self._margins[slot], *gaps])
        return chosen
