"""The punctuation model: windows, company in the batch, and damaged files."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from streamer.engine.model_file import ModelFileError
from streamer.engine.text.marks import HeardWord, MarkedWord
from streamer.engine.text.punctuation_model import (
    AFFIXES,
    BLOCK,
    PAUSE_BOUNDS,
    PUNCTUATION_FILE,
    MarkNetwork,
    NetworkShape,
    PunctuationModel,
    WordRows,
    pause_number,
)
from streamer.engine.text.punctuation_model import PAUSES as PAUSES_of_mark_network

WORDS = [f"word{number}" for number in range(200)]
PAUSES = (None, 0, 100, 300, 900)


@pytest.fixture(scope="module")
def model() -> PunctuationModel:
    """Provide an untrained model of the shape that is shipped. Its answers are as different as its words."""
    torch.manual_seed(3)
    shape = NetworkShape(embedding=24, width=40)
    return PunctuationModel.build(WORDS, torch.randn(1 + len(WORDS) + 60, 24), MarkNetwork(shape))


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
    save_file({"rows": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="not a punctuation model of the format"):
        PunctuationModel.load(tmp_path)


@pytest.mark.parametrize("lost", ["words", "rows", "scales", "network.judge.weight", "shape"])
def test_a_file_without_a_part_is_named(model: PunctuationModel, tmp_path: Path, lost: str) -> None:
    """A file without any one of its parts is refused."""
    path = tmp_path / PUNCTUATION_FILE
    model.save(path)
    with safe_open(path, framework="pt") as file:
        described = json.loads(file.metadata()["punctuation"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors.pop(lost, None)
    described.pop(lost, None)
    save_file(tensors, path, {"punctuation": json.dumps(described)})
    with pytest.raises(ModelFileError, match="lacks a part of a punctuation model"):
        PunctuationModel.load(tmp_path)


def test_whether_a_sentence_is_over_depends_on_the_last_words(model: PunctuationModel) -> None:
    """The end of a sentence has a probability that depends only on the words that the network sees."""
    words = [word.word for word in text(60)]
    answers = [model.over(words[:number]) for number in range(1, 40)]
    assert len(set(answers)) > 30
    assert all(0 < answer < 1 for answer in answers)
    assert model.over(words) == model.over(words[-model.behind :]) == model.over([word.upper() for word in words])
    assert model.over([]) == 0.0


SHAPE = NetworkShape(embedding=12, width=40, views=((-2, -1, 0, 1), (-3, 0, 1)))
PLACES = 3 * BLOCK


def network(seed: int = 0) -> MarkNetwork:
    """Return an untrained network."""
    torch.manual_seed(seed)
    return MarkNetwork(SHAPE).requires_grad_(False)


def scores(of: MarkNetwork, vectors: Tensor, taken: Tensor | None = None) -> Tensor:
    """Both kinds of scores, side by side."""
    places = vectors.shape[1]
    pauses = torch.arange(places).remainder(PAUSES_of_mark_network).expand(len(vectors), -1)
    return torch.cat(of(vectors, pauses, torch.ones(vectors.shape[:2]) if taken is None else taken), dim=2)


def test_the_view_is_as_long_as_the_shape_says() -> None:
    """A word changes the answers from `ahead` words before it to `behind` words after it, and no others."""
    vectors = torch.randn(1, PLACES, 12)
    changed = vectors.clone()
    changed[0, 50] += torch.randn(12)
    found = network()
    different = (scores(found, vectors) != scores(found, changed)).any(dim=2)[0].nonzero().flatten().tolist()
    assert different[0] == 50 - SHAPE.ahead
    assert different[-1] == 50 + SHAPE.behind
    assert (SHAPE.behind, SHAPE.ahead) == (5, 2)


@pytest.mark.parametrize("shift", [1, 5, 17, BLOCK])
def test_the_same_words_give_the_same_bits_at_other_places(shift: int) -> None:
    """The answers for words have the same bits at any place of a row, and beside other words beyond a gap."""
    text = torch.randn(1, 40, 12)
    found = network()
    results = []
    for before, others in ((0, 1), (shift, 3)):
        taken = torch.zeros(1, others * PLACES)
        vectors = torch.randn(1, others * PLACES, 12)
        taken[0, before : before + 40] = 1
        taken[0, before + 40 + SHAPE.gap :] = 1
        vectors[0, before : before + 40] = text
        pauses = torch.zeros(1, others * PLACES, dtype=torch.int64)
        results.append(torch.cat(found(vectors, pauses, taken), dim=2)[0, before : before + 40])
    assert torch.equal(*results)


def test_blocks_change_nothing() -> None:
    """The products in blocks are those that the training computes."""
    vectors = torch.randn(2, PLACES, 12)
    found = network()
    in_blocks = scores(found, vectors)
    assert torch.allclose(in_blocks, scores(found.requires_grad_(True), vectors), atol=1e-5)


def test_pauses_are_told_apart_by_length() -> None:
    """Pauses have different classes by their length, and an unknown pause has its own."""
    assert pause_number(None) == 0
    assert [pause_number(0), pause_number(PAUSE_BOUNDS[0]), pause_number(10**6)] == [1, 2, PAUSES_of_mark_network - 1]


def test_a_view_must_have_its_own_place() -> None:
    """A view without its own place is refused."""
    with pytest.raises(ValueError, match="its own place"):
        NetworkShape.parse({"embedding": 8, "width": 8, "views": [[-2, -1]]})
    assert NetworkShape.parse(SHAPE.values()) == SHAPE


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
