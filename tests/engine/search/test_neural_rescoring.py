"""Decides when the neural language model scores the words of a hypothesis again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamer.engine.language.rescoring import Rescorer
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.neural_rescoring import BeamStep, NeuralRescoring
from streamer.engine.search.word_histories import NO_HISTORY
from tests.engine.tiny_language import Tongue, neural_model

BEAM = 4
OPTIONS = BeamOptions(beam=BEAM, rescoring_floor=0.1, neural_share=0.5, neural_weight=2.0)
FIRST, SECOND = 3, 4  # numbers of words
EMPTY, WITH_FIRST, WITH_SECOND, WITH_BOTH, DEAD = 100, 101, 102, 103, 3  # hashes


class Beam:
    """The beam of one slot, with the gains of its words."""

    def __init__(self, floor: float = OPTIONS.rescoring_floor) -> None:
        tongue = Tongue(0)
        self.rescorer = Rescorer(neural_model(tongue), tongue.model)
        self.rescoring = NeuralRescoring(self.rescorer, BeamOptions(**{**vars(OPTIONS), "rescoring_floor": floor}), 1)
        self.rescoring.reset(0)

    def follow(
        self, histories: Sequence[int], hashes: Sequence[int], masses: Sequence[float], *ended: tuple[int, int]
    ) -> list[float] | None:
        """Return the gains of the rows after a step; None if nothing was rescored. `ended` has rows and words."""
        changed = self.rescoring.follow([BeamStep(0, histories, hashes, masses, lambda number: ended[number])])
        return self.rescoring.gains(0) if changed else None

    def gain(self, *words: int) -> float:
        """Return the expected gain of these words."""
        context, total = self.rescorer.start(), 0.0
        for word in words:
            [gain] = self.rescorer.gains([(context, word)], OPTIONS.neural_share)
            context, total = self.rescorer.after(context, word), total + OPTIONS.neural_weight * gain
        return total


def test_unlikely_hypotheses_wait() -> None:
    """Words of an unlikely hypothesis are scored at the end of the step after which it is likely."""
    beam = Beam()
    ended = (0, FIRST), (0, SECOND)
    found = beam.follow(
        [BEAM, BEAM + 1, 0, NO_HISTORY], [WITH_FIRST, WITH_SECOND, EMPTY, DEAD], [1.0, 0.05, 0.02, 0.0], *ended
    )
    assert found == pytest.approx([beam.gain(FIRST), 0.0, 0.0, beam.gain()])
    hashes = [WITH_SECOND, WITH_FIRST, EMPTY, DEAD]
    assert beam.follow([1, 0, 2, NO_HISTORY], hashes, [0.09, 1.0, 0.02, 0.0]) is None
    found = beam.follow([0, 1, 2, NO_HISTORY], hashes, [0.11, 1.0, 0.02, 0.0])
    assert found == pytest.approx([beam.gain(SECOND), beam.gain(FIRST), 0.0, found[3] if found else 0.0])


def test_words_that_waited_are_scored_before_those_after_them() -> None:
    """A word after one that waits brings both gains, and the row that still has only the first word gets its own."""
    beam = Beam()
    assert beam.follow([BEAM, 0, 0, 0], [WITH_SECOND, EMPTY, EMPTY, EMPTY], [0.01, 1.0, 0.0, 0.0], (0, SECOND)) is None
    found = beam.follow([BEAM, 0, 1, 1], [WITH_BOTH, WITH_SECOND, EMPTY, EMPTY], [1.0, 0.01, 0.5, 0.0], (0, FIRST))
    assert found == pytest.approx([beam.gain(SECOND, FIRST), beam.gain(SECOND), 0.0, 0.0])


def test_a_word_that_ended_in_two_ways_is_one_history() -> None:
    """If one of the ways is likely, both have the gain."""
    beam = Beam()
    ended = (0, FIRST), (0, FIRST)
    found = beam.follow([BEAM, BEAM + 1, 0, 0], [WITH_FIRST, WITH_FIRST, EMPTY, EMPTY], [0.01, 1.0, 0.5, 0.5], *ended)
    assert found == pytest.approx([beam.gain(FIRST), beam.gain(FIRST), 0.0, 0.0])


def test_without_a_floor_all_words_are_scored_at_once() -> None:
    """Without a floor, the words of all hypotheses are scored."""
    beam = Beam(floor=0.0)
    found = beam.follow([BEAM, 0, 0, 0], [WITH_SECOND, EMPTY, EMPTY, EMPTY], [1e-9, 1.0, 0.0, 0.0], (0, SECOND))
    assert found == pytest.approx([beam.gain(SECOND), 0.0, 0.0, 0.0])
