"""The alternatives that the search finds for the rows of a batch."""

from __future__ import annotations

import math

import torch
from torch.nn.utils.rnn import pad_sequence

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.acoustic import units
from streamer.training.language.pronunciation import Pronunciations
from streamer.training.phones.beam_alternatives import BeamAlternatives
from streamer.training.phones.expected_errors import expected_errors
from streamer.triton.repository import asr_repository
from tests.training.search.clear_speech import WAYS, said

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
