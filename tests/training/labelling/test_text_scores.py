"""The likelihood of texts."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from streamer.training.acoustic.units import PHONE_NUMBER, PHONE_UNITS, collapse
from streamer.training.labelling.text_scores import TextScores
from streamer.training.language.pronunciation import Pronunciations
from tests.engine.tiny_language import spelling
from tests.training.search.clear_speech import WAYS, said


@pytest.fixture
def scores() -> TextScores:
    """Return the scores of texts for words that are said clearly."""
    return TextScores(Pronunciations({word: [tuple(way.split())] for word, way in WAYS.items()}, spelling()))


def test_the_text_that_was_said_is_likeliest(scores: TextScores) -> None:
    """Texts with other, fewer or more words are less likely; a text that is too long is impossible."""
    found = scores.score(said("a cat").emissions, ["a cat", "a dog", "cat", "a cats", "cat cat cat cat"])
    assert found[0] == max(found)
    assert found[4] == -math.inf


def test_the_score_is_that_of_all_paths(scores: TextScores) -> None:
    """The score is the sum over all paths that stand for the text."""
    frames = 3
    emissions = torch.randn(frames, len(PHONE_UNITS), generator=torch.Generator().manual_seed(1)).log_softmax(1)
    units = [PHONE_NUMBER["AH"], PHONE_NUMBER["|"]]
    assert scores.units("a") == units
    paths = [path for path in product([0, *units], repeat=frames) if collapse(path) == units]
    expected = math.log(sum(math.exp(sum(emissions[t, unit].item() for t, unit in enumerate(path))) for path in paths))
    assert scores.score(emissions, ["a"])[0] == pytest.approx(expected / frames, abs=1e-5)
