"""The punctuation model: windows, company in the batch, damaged files, and its network."""

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
from streamer.engine.text.marks import HeardWord, MarkedWord
from streamer.engine.text.punctuation_model import (
    AFFIXES,
    PAUSE_BOUNDS,
    PAUSES,
    PUNCTUATION_FILE,
    CompiledMarks,
    Floats,
    NetworkShape,
    PunctuationModel,
    WordRows,
    pause_number,
)
from workshop.punctuation.fitting import MarkNetwork

WORDS = [f"word{number}" for number in range(200)]
HEARD_PAUSES = (None, 0, 100, 300, 900)


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
    return [HeardWord(dice.choice([*WORDS, f"new{place}"]), dice.choice(HEARD_PAUSES)) for place in range(words)]


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


# The network as a graph: it computes what torch computes, in any company.

SHAPE = NetworkShape(embedding=12, width=40, views=((-2, -1, 0, 1), (-3, 0, 1)))
PLACES = 96


@pytest.fixture(scope="module")
def network() -> MarkNetwork:
    """Provide an untrained network without vectors of pauses, whose layers of normalisation have random weights."""
    torch.manual_seed(0)
    made = MarkNetwork(SHAPE).requires_grad_(False)
    made.pauses.weight.zero_()
    for norm in made.norms:
        for part in norm.parameters():
            part.normal_(1, 0.2)
    return made


@pytest.fixture(scope="module")
def compiled(network: MarkNetwork) -> CompiledMarks:
    """Provide the same network as a graph."""
    return CompiledMarks(SHAPE, network.weights())


def random_vectors(places: int, seed: int = 0) -> Floats:
    """Return random vectors of this many places."""
    return np.random.default_rng(seed).normal(size=(places, SHAPE.embedding)).astype(np.float32)


def everywhere(places: int) -> Floats:
    """Return that there is a word at each place."""
    return np.ones((places, 1), np.float32)


def test_the_weights_have_the_stated_shapes(network: MarkNetwork) -> None:
    """The shape says how large each weight of the network is."""
    assert {name: part.shape for name, part in network.weights().items()} == SHAPE.weights


@pytest.mark.parametrize("places", [1, 2, 7, PLACES])
def test_it_computes_what_torch_computes(network: MarkNetwork, compiled: CompiledMarks, places: int) -> None:
    """The scores of marks and cases are those that torch computes, with empty places between the words."""
    vectors, occupied = random_vectors(places), everywhere(places)
    occupied[3:6] = 0
    inputs = torch.from_numpy(vectors)[None], torch.zeros(1, places, dtype=torch.int64), torch.from_numpy(occupied.T)
    expected = torch.cat(network(*inputs), 2)[0]
    assert np.allclose(compiled(vectors, occupied), expected, atol=1e-5)


def test_the_view_is_as_long_as_the_shape_says(compiled: CompiledMarks) -> None:
    """A word changes the answers from `ahead` words before it to `behind` words after it, and no others."""
    vectors = random_vectors(PLACES)
    before = compiled(vectors, everywhere(PLACES))
    vectors[50] += 1 + random_vectors(1, 1)[0]
    different = (compiled(vectors, everywhere(PLACES)) != before).any(axis=1).nonzero()[0].tolist()
    assert different[0] == 50 - SHAPE.ahead
    assert different[-1] == 50 + SHAPE.behind
    assert (SHAPE.behind, SHAPE.ahead) == (5, 2)


@pytest.mark.parametrize("words", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("shift", [0, 1, 5, 17, 32])
def test_the_same_words_give_the_same_bits_at_other_places(compiled: CompiledMarks, words: int, shift: int) -> None:
    """The answers for words have the same bits alone and at any place of a line, beside other words beyond a gap."""
    vectors_of_words = random_vectors(words)
    alone = compiled(vectors_of_words, everywhere(words))
    for others in (0, 1, 2, 80):
        end = SHAPE.gap + shift + words
        vectors, occupied = random_vectors(end + SHAPE.gap + others, 1), everywhere(end + SHAPE.gap + others)
        vectors[end - words : end] = vectors_of_words
        occupied[shift : shift + SHAPE.gap] = 0
        occupied[end : end + SHAPE.gap] = 0
        assert np.array_equal(compiled(vectors, occupied)[end - words : end], alone)


def test_a_view_must_have_its_own_place() -> None:
    """A view without its own place is refused."""
    with pytest.raises(ValueError, match="its own place"):
        NetworkShape.parse({"embedding": 8, "width": 8, "views": [[-2, -1]]})
    assert NetworkShape.parse(SHAPE.values()) == SHAPE


def test_pauses_are_told_apart_by_length() -> None:
    """Pauses have different classes by their length, and an unknown pause has its own."""
    assert pause_number(None) == 0
    assert [pause_number(0), pause_number(PAUSE_BOUNDS[0]), pause_number(10**6)] == [1, 2, PAUSES - 1]
