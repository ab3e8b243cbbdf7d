"""The likeliest path through a graph is the likeliest of all paths."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from streamer.training.acoustic import units
from streamer.training.language.pronunciation import Phones
from streamer.training.phones.pronunciation_graph import PronunciationGraph
from streamer.training.phones.viterbi import RESTING, best_paths

A: list[Phones] = [("AH",), ("EY",)]
TATA: list[Phones] = [("T", "T"), ("T", "AH", "T")]


def sequences(words: list[list[Phones]]) -> list[list[int]]:
    """Return every way to say the words, as units."""
    boundary = units.PHONE_NUMBER[units.BOUNDARY]
    return [
        [unit for phones in chosen for unit in [*(units.PHONE_NUMBER[phone] for phone in phones), boundary]]
        for chosen in product(*words)
    ]


def best_score(emissions: torch.Tensor, wanted: list[list[int]]) -> float:
    """Return the score of the likeliest path that means one of these sequences."""
    used = sorted({units.BLANK, *(unit for sequence in wanted for unit in sequence)})
    found = (path for path in product(used, repeat=len(emissions)) if units.collapse(path) in wanted)
    return max(float(emissions[torch.arange(len(path)), list(path)].sum()) for path in found)


def test_the_best_path_is_the_best_of_all() -> None:
    """The path of every row in a batch is the likeliest; a repeated unit needs a rest in between."""
    torch.manual_seed(3)
    texts, lengths = [[A], [TATA], [A, A], [A]], [3, 6, 6, 5]
    graphs = [PronunciationGraph.of(words) for words in texts]
    for _ in range(4):
        emissions = (3 * torch.randn(len(texts), max(lengths), len(units.PHONE_UNITS))).log_softmax(-1)
        for row, path in enumerate(best_paths(emissions, lengths, graphs)):
            assert path is not None
            said = [units.BLANK if node == RESTING else graphs[row].labels[node] for node in path]
            assert len(said) == lengths[row]
            ways = sequences(texts[row])
            assert units.collapse(said) in ways
            score = float(emissions[row, torch.arange(len(said)), said].sum())
            assert score == pytest.approx(best_score(emissions[row, : lengths[row]], ways), abs=1e-3)


def test_a_text_that_is_too_long_has_no_path() -> None:
    """A text that is too long has no path, and the other rows of the batch have theirs."""
    graphs = [PronunciationGraph.of([TATA]), PronunciationGraph.of([A])]
    found = best_paths(torch.zeros(2, 3, len(units.PHONE_UNITS)), [3, 3], graphs)
    assert found[0] is None
    assert found[1] is not None
