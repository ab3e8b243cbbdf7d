"""The turn model: answers, and damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from streamer.engine.model_file import ModelFileError
from streamer.engine.turn.turn_model import MOST_WORDS, TURNS_FILE, TurnModel, TurnNetwork

WORDS = [f"word{number}" for number in range(100)]


def made() -> TurnModel:
    """An untrained model."""
    torch.manual_seed(5)
    return TurnModel.build(WORDS, torch.randn(1 + len(WORDS) + 40, 12), TurnNetwork(12, 16))


def test_the_answer_depends_on_the_last_words() -> None:
    """It is a probability, differs by the words, and does not depend on words further back or on capitals."""
    model = made()
    answers = {model.over(WORDS[:number]) for number in range(1, 30)}
    assert len(answers) == 29
    assert all(0 < answer < 1 for answer in answers)
    last = WORDS[:MOST_WORDS]
    assert model.over(["before", *last]) == model.over(["other", *last]) == model.over(last)
    assert model.over(["Word1"]) == model.over(["word1"])
    assert model.over([]) == 0.0


def test_unknown_words_differ_by_how_they_end() -> None:
    """A word without a row of its own is read by its beginning and its end."""
    model = made()
    assert model.over(["xxxing"]) != model.over(["xxxed"])


def test_a_file_gives_the_same_answers(tmp_path: Path) -> None:
    """What was saved and loaded answers with the same bits."""
    model = made()
    model.save(tmp_path / TURNS_FILE)
    again = TurnModel.load(tmp_path)
    assert [again.over(WORDS[:number]) for number in range(9)] == [model.over(WORDS[:number]) for number in range(9)]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    path = tmp_path / TURNS_FILE
    with pytest.raises(ModelFileError, match=r"turns\.safetensors is missing: make it with scripts/train/train_turns"):
        TurnModel.load(tmp_path)
    made().save(path)
    with safe_open(path, framework="pt") as file:
        described = json.loads(file.metadata()["turns"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    save_file({**tensors, "rows": tensors["rows"][:50]}, path, {"turns": json.dumps(described)})
    with pytest.raises(ModelFileError, match="lacks a part of a turn model"):
        TurnModel.load(tmp_path)
    save_file(tensors, path, {"turns": json.dumps({**described, "format": "other"})})
    with pytest.raises(ModelFileError, match="is not a turn model"):
        TurnModel.load(tmp_path)
