"""Which utterances are in a batch together, and the content of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.workshop.acoustic.tiny_run import CPU, FRAME, aligned, batches
from workshop.acoustic import units
from workshop.acoustic.batches import Batches, Recipe
from workshop.data.corpus import Corpus, Utterance, write_corpus


def test_an_epoch_holds_every_utterance_once_and_is_planned_by_its_seed(work: Path) -> None:
    """An epoch has every utterance once, batches keep to their seconds, and the seed decides the plan."""
    epoch = batches(work).epoch(3, longest=100.0)
    assert sorted(utterance.name for batch in epoch for utterance in batch) == sorted(f"train{i}" for i in range(12))
    assert all(len(batch) * max(utterance.seconds for utterance in batch) <= 4.0 for batch in epoch)
    assert epoch == batches(work).epoch(3, longest=100.0)
    assert all(utterance.seconds <= 1.2 for batch in batches(work).epoch(0, 1.2) for utterance in batch)


def test_a_corpus_can_come_several_times(work: Path) -> None:
    """Recordings of a repeated corpus are in an epoch as often as asked for; others come once."""
    rare = [(Utterance("rare", 0, 0, "dictated", "s", "a cat"), np.full(16000, 900, np.int16))]
    rest = [(utterance, Corpus(work, "train").samples(utterance)) for utterance in Corpus(work, "train").utterances]
    write_corpus(work, "train", rest + rare)
    names = [
        utterance.name
        for batch in batches(work, Recipe(seconds=4.0, repeated={"dictated": 3, "unknown": 2})).epoch(0, 100.0)
        for utterance in batch
    ]
    assert names.count("rare") == 3
    assert len(names) == len(rest) + 3


def test_synthetic_speech_is_mixed_in_as_far_as_asked_for(work: Path) -> None:
    """A share of 0 draws no synthetic speech; a third is half as much as the real speech."""
    loud = [
        (Utterance(f"made{i}", 0, 0, "synthetic", "s", "a cat"), np.full(16000, 20000, np.int16)) for i in range(12)
    ]
    write_corpus(work, "synthetic", loud)
    corpora = Corpus(work, "train"), Corpus(work, "synthetic")
    alignments = {utterance.name: aligned(utterance.name) for corpus in corpora for utterance in corpus.utterances}
    mixed = Batches(corpora[0], alignments, 1, Recipe(seconds=4.0, long_silence=0.0), CPU, FRAME, corpora[1])
    names = [utterance.name for batch in mixed.epoch(0, 100.0) for utterance in batch]
    assert not any(name.startswith("made") for name in names)
    planned = [utterance for batch in mixed.epoch(0, 100.0, synthetic=1 / 3) for utterance in batch]
    seconds = {made: sum(u.seconds for u in planned if u.name.startswith("made") == made) for made in (True, False)}
    assert seconds[True] == pytest.approx(seconds[False] / 2, abs=1.0)
    made = next(utterance for utterance in planned if utterance.name.startswith("made"))
    level = mixed.tensors([made], "seed").samples.quantile(0.9)
    assert level == pytest.approx(20000 / 32768, abs=0.01)
    other = [utterance.name for batch in mixed.epoch(1, 100.0, synthetic=1 / 3) for utterance in batch]
    assert {name for name in other if "made" in name} != {u.name for u in planned if "made" in u.name}


def test_labels_lie_a_frame_behind_their_phones(work: Path) -> None:
    """At normal speed and without added silence, the frames of a phone are labelled one frame late."""
    recipe = Recipe(seconds=4.0, joined=0.0, long_silence=0.0, trimmed=1.0)
    source = batches(work, recipe)
    for seed in range(20):
        batch = source.tensors(source.epoch(0, 100.0)[0], str(seed))
        assert batch.samples.shape[1] == 640 * batch.labels.shape[1]
        assert int(batch.lengths.max()) <= batch.labels.shape[1]
        for row in batch.labels.tolist():
            assert units.collapse(row) == [units.PHONE_NUMBER[phone] for phone in ("AH", "K", "AE", "T")]
