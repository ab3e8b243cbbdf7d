"""A run stops and is continued, several processes learn the same as one, and Muon makes matrices orthogonal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.project import ROOT
from tests.workshop.acoustic.tiny_run import trainer
from workshop.acoustic.augmentation import Conditions
from workshop.acoustic.losses import Schedule
from workshop.acoustic.trainer import Muon, ProcessGroup, orthogonal


def test_a_run_that_goes_on_counts_on(work: Path, tmp_path: Path) -> None:
    """A checkpoint restores weights, averages, optimisers and position, and training continues from there."""
    first = trainer(work, 1.0)
    figures: list[Any] = []
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


@pytest.mark.parametrize("usual_last", [0.0, 1.0])
def test_the_last_part_of_a_plan_has_usual_conditions(work: Path, usual_last: float) -> None:
    """Features are masked as in the conditions of the run, and in the last part as usual."""
    run = trainer(work, 1.0, Conditions(bands=40, widest_band=80), usual_last)
    figures: list[Any] = []
    masked: list[float] = []

    def hear(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        masked.append(float((given[0] == 0).float().mean()))

    run.model.encoder.register_forward_pre_hook(hear)
    run.train(1.0, figures.append, lambda: len(figures) >= 2)
    assert len(masked) == 2
    assert all(share < 0.6 if usual_last else share > 0.95 for share in masked)


def test_new_heads_learn_faster_than_what_is_trained(work: Path) -> None:
    """With a rate of its own for the body, all but the heads changes by this share of what it would otherwise."""
    changes: dict[float, dict[str, float]] = {}
    for share in (1.0, 0.25):
        run = trainer(work, 1.0, schedule=Schedule(1.0, rise_steps=1, aligned_steps=2, body_rate=share))
        before = {name: values.clone() for name, values in run.model.state_dict().items()}
        run.train(1.0, lambda _: None, lambda: True)  # it stops after its first step
        after = run.model.state_dict()
        changes[share] = {name: float((after[name] - values).norm()) for name, values in before.items()}
    for name, whole in changes[1.0].items():
        if whole > 1e-6:
            expected = 1.0 if ".outputs." in name else 0.25
            assert changes[0.25][name] / whole == pytest.approx(expected, rel=0.05), name


def test_orthogonal_matrices_have_singular_values_near_one() -> None:
    """The iteration works for tall and wide matrices of one batch."""
    torch.manual_seed(0)
    for shape in ((3, 20, 8), (3, 8, 20)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert values.min() > 0.5
        assert values.max() < 1.4


def test_muon_goes_downhill() -> None:
    """A matrix approaches the one with the smallest loss."""
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
from workshop.acoustic.trainer import ProcessGroup
from tests.workshop.acoustic.test_trainer import learned

print(json.dumps(learned(ProcessGroup(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))))
"""


def learned(processes: ProcessGroup) -> dict[str, Any]:
    """What a member has in the end."""
    processes.join()
    torch.manual_seed(0)
    matrices = [nn.Parameter(torch.randn(6, 4)) for _ in range(3)] + [nn.Parameter(torch.randn(4, 4))]
    muon = Muon(matrices, torch.bfloat16, processes=processes)
    for step in range(3):
        # The gradients of four utterances, shared out.
        for matrix in matrices:
            dice = [torch.Generator().manual_seed(100 * step + utterance) for utterance in range(4)]
            found = [torch.randn(matrix.shape, generator=each) for each in dice]
            matrix.grad = torch.stack(processes.share(found)).sum(0)
        processes.add_up([matrix.grad for matrix in matrices if matrix.grad is not None])
        muon.step(0.1)
    processes.leave()
    return {"weights": [matrix.tolist() for matrix in matrices], "few": processes.share(["one"])}


def members(size: int, rendezvous: Path) -> list[dict[str, Any]]:
    """Return the result of each of these processes."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER, str(rank), str(size), str(rendezvous)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for rank in range(size)
    ]
    return [json.loads(process.communicate(timeout=100)[0]) for process in started]


def test_a_group_learns_what_one_process_learns(tmp_path: Path) -> None:
    """Two processes that share batches and matrices end with the same weights as one process."""
    first, second = members(2, tmp_path / "two")
    alone = learned(ProcessGroup())  # here: a process that imports torch takes three seconds of processor time
    assert first == second
    for wanted, found in zip(alone["weights"], first["weights"], strict=True):
        torch.testing.assert_close(torch.tensor(wanted), torch.tensor(found), atol=0.02, rtol=0)
    assert first["few"] == ["one"]
