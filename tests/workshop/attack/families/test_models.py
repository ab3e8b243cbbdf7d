"""Wild folders and archives of models: none of them breaks a promise, and a broken one would be noticed."""

from __future__ import annotations

import bz2
import random
from pathlib import Path

import pytest

from workshop.attack.attack import PromiseBroken
from workshop.attack.families import models


@pytest.mark.parametrize("seed", range(3))
def test_wild_folders(seed: int, tmp_path: Path) -> None:
    """Whatever is wrong with the bytes of a folder, it can be read, or a sentence says why not."""
    rng, answers = random.Random(seed), set()
    for number in range(100):
        (tmp_path / str(number)).mkdir()
        answers.add(models.read_wild_folder(tmp_path / str(number), rng))
    assert answers == {"read", "refused"}


@pytest.mark.parametrize("seed", range(3))
def test_wild_archives(seed: int, tmp_path: Path) -> None:
    """Whatever is in an archive, no more is written than it says, and nothing outside."""
    rng, answers = random.Random(seed), set()
    for number in range(60):
        (tmp_path / str(number)).mkdir()
        answers.add(models.unpack_wild_archive(tmp_path / str(number), rng))
    assert answers == {"unpacked", "refused"}


def test_a_broken_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that becomes far larger is noticed."""
    monkeypatch.setattr(models, "wild_archive", lambda rng: bz2.compress(models.tar({"large": bytes(2 << 20)})))
    with pytest.raises(PromiseBroken, match="a small archive became 2097152 bytes"):
        models.unpack_wild_archive(tmp_path, random.Random(1))
