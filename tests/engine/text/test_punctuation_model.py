"""The punctuation model: windows, company in the batch, and damaged files."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from streamer.engine.model_file import ModelFileError
from streamer.engine.networks.mark_network import MarkNetwork
from streamer.engine.text.mark_graph import NetworkShape
from streamer.engine.text.marks import HeardWord, MarkedWord
from streamer.engine.text.punctuation_model import (
    AFFIXES,
    PUNCTUATION_FILE,
    PunctuationModel,
    WordRows,
)

WORDS = [f"word{number}" for number in range(200)]
PAUSES = (None, 0, 100, 300, 900)


@pytest.fixture(scope="module")
def model() -> PunctuationModel:
    """Provide an untrained model of the shape that is shipped. Its answers are as different as its words."""
    torch.manual_seed(3)
    shape = NetworkShape(embedding=24, width=40)
    vectors = torch.randn(1 + len(WORDS) + 60, 24).numpy()
    return PunctuationModel.build(WORDS, vectors, shape, MarkNetwork(shape).weights())


def text(words: int, seed: int = 0) -> list[HeardWord]:
    """Return random words, some of them unknown, with random pauses."""
    dice = random.Random(seed)
    return [HeardWord(dice.choice([*WORDS, f"new{place}"]), dice.choice(PAUSES)) for place in range(words)]


def open_end(words: Sequence[HeardWord]) -> list[HeardWord]:
    """Return the same words, after which more may come."""
    return [*words[:-1], HeardWord(words[-1].word)]


def test_answers_are_of_all_kinds(model: PunctuationModel) -> None:
    """The untrained model gives answers of all kinds, so that the other tests compare something."""
    [found] = model.read([text(400)])
    assert len({word.mark for word in found}) == 4
    assert len({word.case for word in found}) == 3


@pytest.mark.parametrize("seed", range(3))
def test_every_division_gives_the_same_answers(model: PunctuationModel, seed: int) -> None:
    """A word's answer needs `behind` words before it and `ahead` after it, and nothing else."""
    words = open_end(text(300, seed))
    [whole] = model.read([words])
    dice = random.Random(seed)
    decided: list[MarkedWord] = []
    while len(decided) < len(words) - model.ahead:
        known = min(len(words), len(decided) + dice.randint(1, 9) + model.ahead)
        start = max(0, len(decided) - model.behind - dice.choice([0, 0, 3]))
        [found] = model.read([open_end(words[start:known])])
        decided += found[len(decided) - start : known - model.ahead - start]
    assert decided == whole[: len(decided)]


def test_company_in_the_batch_changes_nothing(model: PunctuationModel) -> None:
    """Longer, shorter and empty windows in the batch change no answer."""
    windows = [text(dice, seed=dice) for dice in (1, 30, 7, 0, 65, 24, 2)]
    together = model.read(windows)
    assert [len(each) for each in together] == [len(window) for window in windows]
    assert together == [model.read([window])[0] for window in windows]
    assert model.read([]) == []


def test_the_end_of_a_segment_settles_its_last_words(model: PunctuationModel) -> None:
    """The end of a segment may change the answers of its last words, but none before them."""
    changed = 0
    for seed in range(20):
        words = text(40, seed)
        [opened] = model.read([open_end(words)])
        [ended] = model.read([[*words[:-1], HeardWord(words[-1].word, 900)]])
        assert opened[: -model.ahead] == ended[: -model.ahead]
        changed += opened != ended
    assert changed


def test_a_file_gives_the_model_again(model: PunctuationModel, tmp_path: Path) -> None:
    """A model from a file gives the same answers."""
    model.save(tmp_path / PUNCTUATION_FILE)
    loaded = PunctuationModel.load(tmp_path)
    windows = [text(80, seed) for seed in range(5)]
    assert loaded.read(windows) == model.read(windows)
    assert (loaded.behind, loaded.ahead) == (model.behind, model.ahead)
    assert [path.name for path in tmp_path.iterdir()] == [PUNCTUATION_FILE]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error for a missing file names the script that makes it."""
    with pytest.raises(ModelFileError, match=r"punctuation\.safetensors is missing.*train_punctuation"):
        PunctuationModel.load(tmp_path)


def test_a_damaged_file_is_named(model: PunctuationModel, tmp_path: Path) -> None:
    """The error for a damaged file says what is wrong with it."""
    path = tmp_path / PUNCTUATION_FILE
    model.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match="cannot be read as a punctuation model"):
        PunctuationModel.load(tmp_path)
    save_file({"rows": np.zeros(2, np.float32)}, path)
    with pytest.raises(ModelFileError, match="not a punctuation model of the format"):
        PunctuationModel.load(tmp_path)


@pytest.mark.parametrize("lost", ["words", "rows", "scales", "network.judge.weight", "shape"])
def test_a_file_without_a_part_is_named(model: PunctuationModel, tmp_path: Path, lost: str) -> None:
    """A file without any one of its parts is refused."""
    path = tmp_path / PUNCTUATION_FILE
    model.save(path)
    with safe_open(path, framework="numpy") as file:
        described = json.loads(file.metadata()["punctuation"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors.pop(lost, None)
    described.pop(lost, None)
    save_file(tensors, path, {"punctuation": json.dumps(described)})
    with pytest.raises(ModelFileError, match="lacks a part of a punctuation model"):
        PunctuationModel.load(tmp_path)


def test_a_network_of_another_size_is_refused(model: PunctuationModel, tmp_path: Path) -> None:
    """A file whose network does not have the size that it states is refused."""
    model.shape, shape = NetworkShape(embedding=24, width=41), model.shape
    model.save(tmp_path / PUNCTUATION_FILE)
    model.shape = shape
    with pytest.raises(ModelFileError, match="its network does not have the shape"):
        PunctuationModel.load(tmp_path)


def test_whether_a_sentence_is_over_depends_on_the_last_words(model: PunctuationModel) -> None:
    """The end of a sentence has a probability that depends only on the words that the network sees."""
    words = [word.word for word in text(60)]
    answers = [model.over(words[:number]) for number in range(1, 40)]
    assert len(set(answers)) > 30
    assert all(0 < answer < 1 for answer in answers)
    assert model.over(words) == model.over(words[-model.behind :]) == model.over([word.upper() for word in words])
    assert model.over([]) == 0.0


def test_known_words_have_rows_of_their_own() -> None:
    """Known words have different rows, and none has the row of an unknown word."""
    rows = WordRows(["walk", "walked", "talked"], 50)
    own = [rows.of(word)[0] for word in ("walk", "walked", "talked")]
    assert sorted({*own, rows.of("unheard")[0]}) == [0, *sorted(own)]


def test_words_with_the_same_ending_share_a_row() -> None:
    """Words with the same beginning or ending share a row."""
    rows = WordRows([], 5000)
    assert set(rows.of("walking")) & set(rows.of("talking")) - {0}
    assert not set(rows.of("walking")) & set(rows.of("houses")) - {0}


def test_all_rows_are_within_the_table() -> None:
    """The rows of all words, even of odd ones, are within the table."""
    rows = WordRows(["a", "b"], 7)
    for word in ("", "a", "ab", "naïve", "x" * 1000, "'"):
        found = rows.of(word)
        assert len(found) == 1 + AFFIXES
        assert max(found) < len(rows)
        assert min(found[1:]) > 2
