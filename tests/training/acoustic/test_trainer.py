"""Training: units, batches, augmentation, Muon, and a run that stops and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from streamer.engine.models.acoustic_model import AcousticModel, ModelDescription
from streamer.engine.models.encoder import CtcHead, EncoderConfig
from streamer.training.acoustic import units
from streamer.training.acoustic.augment import Augmentation
from streamer.training.acoustic.batches import Batches, Recipe
from streamer.training.acoustic.muon import Muon, orthogonal
from streamer.training.acoustic.trainer import Schedule, Trainer
from streamer.training.data.alignment import Alignment
from streamer.training.data.corpus import Corpus, Utterance, write_corpus
from tests.project import SCRIPTS

CPU = torch.device("cpu")
ENCODER = EncoderConfig(
    outputs=(CtcHead("phones", 2, len(units.PHONE_UNITS)), CtcHead("characters", 2, len(units.CHARACTERS)),
             CtcHead("phones_middle", 1, len(units.PHONE_UNITS))),
    stem=8, width=16, layers=2, heads=2, feedforward=16,
)  # fmt: skip
NAMES = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS, "phones_middle": units.PHONE_UNITS}


def aligned(name: str) -> Alignment:
    """The words "a cat" with times."""
    phones = [("AH", 200, 100, 0), ("K", 300, 80, 1), ("AE", 380, 120, 1), ("T", 500, 100, 1)]
    return Alignment(name, True, -10.0, [("a", 200, 100), ("cat", 300, 300)], phones)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Prepared sets of noise that passes for speech."""
    rng = np.random.default_rng(0)
    for name, number in (("train", 12), ("noise", 2), ("rooms", 1)):
        recordings = [
            (
                Utterance(f"{name}{i}", 0, 0, "x", "s", "a cat"),
                rng.integers(-900, 900, 16000 + 800 * i).astype(np.int16),
            )
            for i in range(number)
        ]
        write_corpus(tmp_path, name, recordings)
    return tmp_path


def batches(work: Path, recipe: Recipe | None = None) -> Batches:
    """The batches of the prepared set."""
    corpus = Corpus(work, "train")
    alignments = {utterance.name: aligned(utterance.name) for utterance in corpus.utterances}
    return Batches(corpus, alignments, 1, recipe or Recipe(seconds=4.0), CPU)


def trainer(work: Path, minutes: float) -> Trainer:
    """A tiny run."""
    torch.manual_seed(0)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU)
    model = AcousticModel(ModelDescription("test", ENCODER, NAMES, (320,)))
    schedule = Schedule(minutes, rise_steps=2, aligned_steps=2, crossfade_steps=2)
    return Trainer(model, batches(work), augmentation, schedule, 1, torch.float32)


def test_targets_mark_the_end_of_every_word() -> None:
    """Phones have a boundary after each word; collapsing a path drops blanks and repetitions."""
    names = [units.PHONE_UNITS[unit] for unit in units.phones(aligned("u"))]
    assert names == ["AH", "|", "K", "AE", "T", "|"]
    assert units.collapse([0, 5, 5, 0, 5, 7, 7, 0]) == [5, 5, 7]
    assert [units.CHARACTERS[unit] for unit in units.characters("it's a")] == list("it's a")


def test_errors_are_the_fewest_edits() -> None:
    """Substitutions, insertions and deletions count one each."""
    assert units.errors("kitten", "sitting") == 3
    assert units.errors("", "ab") == units.errors("ab", "") == 2


def test_an_epoch_holds_every_utterance_once_and_is_planned_by_its_seed(work: Path) -> None:
    """Batches keep to their seconds, and the same epoch is the same plan."""
    epoch = batches(work).epoch(3, longest=100.0)
    assert sorted(utterance.name for batch in epoch for utterance in batch) == sorted(f"train{i}" for i in range(12))
    assert all(len(batch) * max(utterance.seconds for utterance in batch) <= 4.0 for batch in epoch)
    assert epoch == batches(work).epoch(3, longest=100.0)
    assert all(utterance.seconds <= 1.2 for batch in batches(work).epoch(0, 1.2) for utterance in batch)


def test_synthetic_speech_is_mixed_in_as_far_as_asked_for(work: Path) -> None:
    """A share of nothing draws none; a third is half as much as the real speech; its own audio fills the rows."""
    loud = [
        (Utterance(f"made{i}", 0, 0, "synthetic", "s", "a cat"), np.full(16000, 20000, np.int16)) for i in range(12)
    ]
    write_corpus(work, "synthetic", loud)
    corpora = Corpus(work, "train"), Corpus(work, "synthetic")
    alignments = {utterance.name: aligned(utterance.name) for corpus in corpora for utterance in corpus.utterances}
    mixed = Batches(corpora[0], alignments, 1, Recipe(seconds=4.0, long_silence=0.0), CPU, corpora[1])
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
    """At normal speed and with no silence before it, a phone's frames are labelled one frame late."""
    recipe = Recipe(seconds=4.0, joined=0.0, long_silence=0.0, trimmed=1.0)
    source = batches(work, recipe)
    for seed in range(20):
        batch = source.tensors(source.epoch(0, 100.0)[0], str(seed))
        assert batch.samples.shape[1] == 640 * batch.labels.shape[1]
        assert int(batch.lengths.max()) <= batch.labels.shape[1]
        for row in batch.labels.tolist():
            assert units.collapse(row) == [units.PHONE_NUMBER[phone] for phone in ("AH", "K", "AE", "T")]


def test_augmented_audio_stays_audio(work: Path) -> None:
    """Finite, within full scale, of the same length; the features keep their shape and lose some bands."""
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU)
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(40, 8000) * 0.05
    samples[0] = 0
    changed = augmentation.audio(samples, generator)
    assert changed.shape == samples.shape
    assert torch.isfinite(changed).all()
    assert changed.abs().max() <= 1
    masked = augmentation.mel(torch.ones(4, 200, 80), torch.tensor([50, 50, 20, 1]), generator)
    assert 0 < masked.mean() < 1


def test_orthogonal_matrices_have_singular_values_near_one() -> None:
    """The iteration works for tall and wide matrices of one batch."""
    torch.manual_seed(0)
    for shape in ((3, 20, 8), (3, 8, 20)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert values.min() > 0.5
        assert values.max() < 1.4


def test_muon_goes_downhill() -> None:
    """A matrix moves towards the one that the loss wants."""
    torch.manual_seed(0)
    matrix, wanted = nn.Parameter(torch.zeros(8, 8)), torch.randn(8, 8)
    muon = Muon([matrix], torch.float32)
    before = float((matrix - wanted).square().mean().detach())
    for _ in range(60):
        matrix.grad = None
        (matrix - wanted).square().sum().backward()
        muon.step(0.05)
    assert float((matrix - wanted).square().mean().detach()) < before / 2


MEMBER = """
import json, sys
from pathlib import Path
import torch
from torch import nn
from training.muon import Muon
from training.team import Team

team = Team(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
team.join()
torch.manual_seed(0)
matrices = [nn.Parameter(torch.randn(6, 4)) for _ in range(3)] + [nn.Parameter(torch.randn(4, 4))]
muon = Muon(matrices, torch.bfloat16, team=team)
for step in range(3):
    # The gradients of four utterances, shared out.
    for number, matrix in enumerate(matrices):
        found = [torch.randn(matrix.shape, generator=torch.Generator().manual_seed(100 * step + u)) for u in range(4)]
        matrix.grad = torch.stack(team.share(found)).sum(0)
    team.add_up([matrix.grad for matrix in matrices])
    muon.step(0.1)
print(json.dumps({"weights": [matrix.tolist() for matrix in matrices], "few": team.share(["one"])}))
team.leave()
"""


def members(size: int, meeting: Path) -> list[dict[str, object]]:
    """What each process of a team ends with."""
    scripts = SCRIPTS
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER, str(rank), str(size), str(meeting)],
            cwd=scripts, stdout=subprocess.PIPE, env={"PYTHONPATH": f"{scripts}"},
        )
        for rank in range(size)
    ]  # fmt: skip
    return [json.loads(process.communicate(timeout=100)[0]) for process in started]


def test_a_team_learns_what_one_process_learns(tmp_path: Path) -> None:
    """Two processes that share batches and matrices end with the weights of one that does all, and with the same."""
    (alone,) = members(1, tmp_path / "one")
    first, second = members(2, tmp_path / "two")
    assert first == second
    for wanted, found in zip(alone["weights"], first["weights"], strict=True):
        torch.testing.assert_close(torch.tensor(wanted), torch.tensor(found), atol=0.02, rtol=0)
    assert first["few"] == ["one"]


def test_a_run_that_goes_on_counts_on(work: Path, tmp_path: Path) -> None:
    """A checkpoint brings back weights, averages, optimisers and place; learning goes on from there."""
    first, figures = trainer(work, 1.0), []
    first.measure_features()
    first.train(1.0, figures.append, lambda: len(figures) >= 5)
    assert [int(row["step"]) for row in figures] == [1, 2, 3, 4, 5]
    assert "phones_frames" in figures[0]
    assert "phones_frames" not in figures[4]
    first.save(tmp_path / "checkpoint.pt")
    second = trainer(work, 1.0)
    second.load(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert (second.step, second.position, second.trained_seconds) == (5, first.position, first.trained_seconds)
    for name, tensor in first.averaged().state_dict().items():
        assert torch.equal(second.averaged().state_dict()[name], tensor)
    second.train(1.0, figures.append, lambda: len(figures) >= 6)
    assert int(figures[5]["step"]) == 6
    assert not list(tmp_path.glob("*.partial"))


def test_the_rate_rises_stays_and_falls_to_zero() -> None:
    """The schedule goes by steps at first, then by the planned time."""
    schedule = Schedule(10.0, rate=1.0, rise_steps=10, fall=0.5)
    rates = [schedule.learning_rate(4, 0.0), schedule.learning_rate(99, 0.3), schedule.learning_rate(99, 0.75)]
    assert rates == [0.5, 1.0, 0.5]
    assert schedule.learning_rate(99, 1.0) == 0
    assert schedule.frame_share(0) == 1
    assert Schedule(10.0, aligned_steps=0).frame_share(0) == 0
    assert schedule.frame_share(schedule.aligned_steps + schedule.crossfade_steps) == 0
