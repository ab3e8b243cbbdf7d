"""The processes that train one model together. Each computes a share of every batch, and the results are added up.

On two cores, two processes with one thread each are nearly twice as fast as one process with two threads. Most
operations are small, and threads would spend most of the time waiting for each other.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, distributed

# A member that waits longer than this for the others ends with an error. A run may be paused for hours; a member that
# has died is noticed at once, because its connection is closed.
PATIENCE = datetime.timedelta(days=1)

Item = TypeVar("Item")


class ProcessGroup:
    """One of the processes of a run, or the only one."""

    def __init__(self, rank: int = 0, size: int = 1, rendezvous: Path | None = None) -> None:
        """`rendezvous`: the path of a file that does not exist yet, the same for all members."""
        self.rank = rank
        self.size = size
        self._rendezvous = rendezvous

    def join(self) -> None:
        """Wait for the other members. Nothing can be shared before this."""
        if self.size > 1:
            rendezvous = f"file://{self._rendezvous}"
            distributed.init_process_group(
                "gloo", init_method=rendezvous, rank=self.rank, world_size=self.size, timeout=PATIENCE
            )

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Return this member's part of a list, or the whole list if it is too short for all members."""
        return list(items[self.rank :: self.size] or items)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the members."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    def collect(self, part: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return the joined parts of all members. `lengths` are their first dimensions."""
        if self.size == 1:
            return part
        # They are sent as bytes, because not every data type can be sent.
        padded = part.new_zeros(max(lengths), *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in lengths]
        distributed.all_gather([block.view(torch.uint8) for block in parts], padded.view(torch.uint8))
        return torch.cat([block[:length] for block, length in zip(parts, lengths, strict=True)])

    def leave(self) -> None:
        """Leave the group."""
        if self.size > 1:
            distributed.destroy_process_group()
