"""The search finds alternatives for a batch, and the expected errors become fewer along the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions
from tests.workshop.search.clear_speech import WAYS, said
from workshop.acoustic import units
from workshop.language.pronunciation import Pronunciations
from workshop.phones.expected_errors import Alternative, BeamAlternatives, expected_errors

A: Alternative = Alternative(("a",), -3.0, [[("AH",), ("EY",)]])
AN: Alternative = Alternative(("an",), -2.0, [[("AE", "N")]])
AN_A: Alternative = Alternative(("an", "a"), -4.0, [[("AE", "N")], [("AH",)]])


class Given:
    """Gives known alternatives."""

    def __init__(self, *found: list[Alternative]) -> None:
        self._found = list(found)

    def find(self, emissions: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """Return the same alternatives for any audio."""
        assert not emissions.requires_grad
        return self._found


def emissions(rows: int) -> Tensor:
    """Return emissions of a head that is unsure, for six frames."""
    torch.manual_seed(0)
    return torch.randn(rows, 6, len(units.PHONE_UNITS)).log_softmax(-1).requires_grad_(True)


def test_the_expectation_is_over_the_alternatives() -> None:
    """Alternatives count with their probability; rows are added, and a row with one alternative is not counted."""
    found = expected_errors(emissions(2), torch.tensor([6, 6]), ["a", "a"], Given([A, AN, AN_A], [A]))
    weights = torch.tensor([-3.0, -2.0, -4.0]).softmax(0)
    assert found.item() == pytest.approx(float(weights @ torch.tensor([0.0, 1.0, 1.0])))
    nothing = expected_errors(emissions(1), torch.tensor([6]), ["a"], Given([A]))
    assert nothing.item() == 0


def test_the_gradient_makes_right_words_likelier() -> None:
    """The gradient is p (e - E[e]) on every frame of an alternative's path, and zero after the end."""
    heard = emissions(1)
    found = expected_errors(heard, torch.tensor([5]), ["a"], Given([AN, A]))
    (gradient,) = torch.autograd.grad(found, heard)
    assert not gradient[0, 5:].any()
    right, wrong = torch.tensor([-3.0, -2.0]).softmax(0).tolist()
    step = right * wrong
    # Where both paths rest or say the same, their parts cancel.
    values = gradient[gradient.abs() > 1e-6]
    assert set(values.sign().tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(values.abs(), torch.full_like(values, step))
    assert gradient.sum().abs() < 1e-6


def test_an_alternative_that_does_not_fit_is_left_out() -> None:
    """Two frames are too few for three units and a boundary."""
    found = expected_errors(emissions(1), torch.tensor([2]), ["a"], Given([A, AN]))
    assert found.item() == 0


CPU = torch.device("cpu")


def test_rows_of_any_length_get_their_words_and_others() -> None:
    """The likeliest comes first, each has its pronunciations, and clear speech has few expected errors."""
    language = LanguageModel.build(list(WAYS), {(word,): (math.log(0.25), 0.0) for word in WAYS})
    spelled = {word: tuple(units.PHONE_NUMBER[phone] for phone in way.split()) for word, way in WAYS.items()}
    lexicon = Lexicon.build([(language.words.index(word), way) for word, way in spelled.items()], language.unigrams)
    letters = LetterToSound.load(asr_repository() / "streaming_asr" / "1" / "letters.safetensors")
    known = Pronunciations({word: [tuple(way.split())] for word, way in WAYS.items()}, letters)
    source = BeamAlternatives(lexicon, language, BeamOptions(), known, 3)
    texts = ["a dog", "cats", "cat cats dog a"]
    spoken = [said(text).emissions for text in texts]
    lengths = [len(row) for row in spoken]
    heard = pad_sequence(spoken, batch_first=True, padding_value=-3.0)
    for _ in range(2):  # a batch leaves nothing behind
        found = source.find(heard, lengths)
        assert [" ".join(row[0].words) for row in found] == texts
        assert all(1 <= len(row) <= 3 for row in found)
        assert all(row == sorted(row, key=lambda alternative: -alternative.score) for row in found)
    assert found[1][0].pronunciations == [[("K", "AE", "T", "S")]]
    wrong = expected_errors(heard, torch.tensor(lengths), texts, source)
    assert 0 <= wrong < 0.5
