"""Prepares the given speech, noise and rooms: checks and decodes them, and removes from train what is in dev."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streamer.text.counts import counted
from streamer.training.data.corpus import Utterance, write_corpus
from streamer.training.data.given_speech import Row, decoded, read_manifest, unlabelled
from streamer.training.workers import Workers


def prepare(speech: Path, work: Path, processes: int, tell: Callable[[str], None]) -> None:
    """Write all four prepared sets to `work`, and report one line about each."""
    dev = read_manifest(speech / "dev.tsv")
    train = read_manifest(speech / "train.tsv")
    kept = without(train, dev)
    left_out = f"{len(train) - len(kept)} left out because dev holds them"
    tell(f"train: {counted(len(train), 'row')}, {left_out}; dev: {counted(len(dev), 'row')}")
    with Workers(processes) as workers:
        for name, rows in (("dev", dev), ("train", kept)):
            tell(amount(name, write_corpus(work, name, decoded(workers, speech, rows))))
        for name in ("noise", "rooms"):
            tell(amount(name, write_corpus(work, name, unlabelled(speech / f"{name}.tar"))))


def without(train: list[Row], dev: list[Row]) -> list[Row]:
    """Return the rows of train that are not also in dev, neither as a recording nor as a text of the same speaker."""
    members = {(row.corpus, row.member) for row in dev}
    spoken = {(row.corpus, row.speaker, row.text) for row in dev}
    return [
        row
        for row in train
        if (row.corpus, row.member) not in members and (row.corpus, row.speaker, row.text) not in spoken
    ]


def amount(name: str, utterances: list[Utterance]) -> str:
    """Return a line with the size of a set."""
    hours = sum(utterance.seconds for utterance in utterances) / 3600
    return f"{name}: {counted(len(utterances), 'recording')}, {hours:.2f} h"
