"""Processes that train together learn the same as one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from streamer.training.acoustic.muon import Muon
from streamer.training.acoustic.process_group import ProcessGroup
from tests.project import ROOT

MEMBER = """
import json, sys
from pathlib import Path
from streamer.training.acoustic.process_group import ProcessGroup
from tests.training.acoustic.test_process_group import learned

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
