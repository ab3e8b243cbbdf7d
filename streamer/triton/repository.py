"""Triton's model repository: where it lies, what is in it, and a copy of it with other settings."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from streamer.shipped import shipped
from streamer.triton import TritonError

CONFIG = "config.pbtxt"
# The first number of the field, if the field has no other one.
INSTANCES = r"\binstance_group\b(?:(?!\bcount\b)[^\]])*\bcount\s*:\s*(\d+)(?![^\]]*\bcount\s*:)"
SLOTS = r"\bmax_candidate_sequences\s*:\s*(\d+)"
NOT_FIELDS = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*')


def asr_repository() -> Path:
    """The folder `asr_repo` that belongs to this version: in the package, or beside it in a checkout."""
    try:
        return shipped("asr_repo")
    except FileNotFoundError as error:
        raise TritonError(str(error)) from error


def models_in(repository: Path) -> tuple[str, ...]:
    """The names of the models of a repository."""
    found = tuple(sorted(path.parent.name for path in repository.glob(f"*/{CONFIG}")))
    if not found:
        raise TritonError(f"{repository} is not a model repository: no folder in it has a {CONFIG}")
    return found


def linked_copy(
    repository: Path, copy: Path, models: Sequence[str], *, instances: int | None, slots: int | None
) -> None:
    """Make `copy` a repository of links whose `models` have other numbers of instances and of sequences."""
    copy.mkdir()
    for model in repository.iterdir():
        if model.name in models:
            linked_model(model, copy / model.name, instances=instances, slots=slots)
        else:
            (copy / model.name).symlink_to(model)


def linked_model(model: Path, copy: Path, *, instances: int | None, slots: int | None) -> None:
    """Make `copy` a model of links that has other numbers of instances and of sequences, whatever stood there."""
    text = configured(model / CONFIG, instances=instances, slots=slots)
    if copy.is_symlink():
        copy.unlink()
    elif copy.is_dir():
        shutil.rmtree(copy)
    copy.mkdir()
    for path in model.iterdir():
        if path.name != CONFIG:
            (copy / path.name).symlink_to(path)
    (copy / CONFIG).write_text(text, encoding="utf-8")


def configured(config: Path, *, instances: int | None, slots: int | None) -> str:
    """The text of a model's configuration with other numbers of instances and of sequences in each."""
    try:
        text = config.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TritonError(f"{config} does not exist: the repository has no such model") from None
    for name, field, number in (
        ("instances", INSTANCES, instances),
        ("slots", SLOTS, slots),
    ):
        if number is None:
            continue
        if number < 1:
            raise TritonError(f"{name} must be 1 or more, not {number}")
        bare = NOT_FIELDS.sub(lambda found: " " * len(found[0]), text)
        places = [found.span(1) for found in re.finditer(field, bare)]
        if len(places) != 1:
            wanted = "instance_group [ { count: … } ]" if name == "instances" else "max_candidate_sequences: …"
            raise TritonError(f"{name} cannot be set: {config} must have `{wanted}` exactly once")
        start, end = places[0]
        text = f"{text[:start]}{number}{text[end:]}"
    return text
