"""The greedy search."""

from __future__ import annotations

import pytest
import torch

from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Hotword
from streamer.engine.waiting import finish
from streamer.testing.exact_speech import UNITS


def emissions(*rows: str, probability: float = 0.9) -> Emissions:
    """Return emissions whose best units spell these rows; `.` is the blank."""
    best = torch.tensor([[0 if unit == "." else UNITS.index(unit) for unit in row] for row in rows])
    peaks = torch.nn.functional.one_hot(best, len(UNITS)).float()
    rest = (1 - probability) / (len(UNITS) - 1)
    return {"characters": (peaks * probability + (1 - peaks) * rest).log()}


def test_repeats_collapse_and_blanks_separate() -> None:
    """A unit held over several frames counts once; after a blank it counts again."""
    search = GreedySearch(UNITS, 1)
    [hypothesis] = search.advance([0], emissions("hheel.lloo..  .wo"))
    assert [word.text for word in hypothesis.words] == ["hello", "wo"]


def test_words_have_their_frames() -> None:
    """A word covers the frames from its first unit to its last."""
    search = GreedySearch(UNITS, 1)
    [hypothesis] = search.advance([0], emissions("..a.bb. .c"))
    assert [(word.start, word.end) for word in hypothesis.words] == [(2, 6), (9, 10)]


def test_steps_continue_one_another() -> None:
    """A unit that goes on in the next step counts once, and a word may span steps."""
    search = GreedySearch(UNITS, 1)
    search.advance([0], emissions("..he"))
    [hypothesis] = search.advance([0], emissions("eey "))
    assert [word.text for word in hypothesis.words] == ["hey"]
    assert hypothesis.words[0].start == 2


def test_slots_are_apart_and_resettable() -> None:
    """Rows go to the slots they are given for, and a reset forgets what was read."""
    search = GreedySearch(UNITS, 3)
    search.advance([2, 0], emissions("ab", "cd"))
    search.reset([2])
    first, second = search.advance([0, 2], emissions("ef", "gh"))
    assert [word.text for word in first.words] == ["cdef"]
    assert [word.text for word in second.words] == ["gh"]


def test_confidence_is_the_mean_of_the_units() -> None:
    """The confidence of a word is the geometric mean of its units' probabilities."""
    search = GreedySearch(UNITS, 1)
    search.advance([0], emissions("a", probability=0.9))
    [hypothesis] = search.advance([0], emissions("b", probability=0.4))
    assert hypothesis.words[0].confidence == pytest.approx(0.6, abs=1e-4)


def test_units_without_a_space_are_refused() -> None:
    """A head without a unit for the space is refused."""
    with pytest.raises(ValueError, match="space"):
        GreedySearch(["<blank>", "a"], 1)


def test_the_greedy_search_has_one_path_and_no_hotwords() -> None:
    """The only alternative is the best path, with probability 1; hotwords are refused, any other option is accepted."""
    search = GreedySearch(UNITS, 1)
    finish(search.prepare(0, [], settle_frames=25))
    search.advance([0], emissions("hey"))
    assert search.alternatives(0, 5) == [(search.finish([0])[0].words, 1.0)]
    assert search.alternatives(0, 0) == []
    with pytest.raises(ValueError, match="hotwords"):
        finish(search.prepare(0, [Hotword("hey")], settle_frames=0))
