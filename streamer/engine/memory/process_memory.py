"""The memory of the process that measures, and of its GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch


class GpuMemory:
    """The memory of a GPU; everything is 0 on a CPU."""

    def __init__(self, device: str) -> None:
        self.name, self.total, self.context, self._device = "", None, 0, device
        if device != "cpu":
            free, self.total = torch.cuda.mem_get_info(device)  # this call prepares the GPU for the process
            self.name, self.context = torch.cuda.get_device_name(device), self.total - free

    @property
    def used(self) -> int:
        """How much the process has taken for tensors, including what it keeps for later ones."""
        return torch.cuda.memory_reserved(self._device) if self.total is not None else 0

    @property
    def described(self) -> dict[str, Any]:
        """The device, as in a report."""
        return {"kind": "cpu"} if self.total is None else {"kind": "gpu", "name": self.name, "memory": self.total}


def resident() -> dict[str, int]:
    """The memory of this process: RssAnon is its own, RssFile is mapped from files that processes share."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return {name: 1024 * int(size) for name, size in re.findall(r"^(Rss\w+):\s*(\d+) kB$", status, re.MULTILINE)}


def sizes(main: int, gpu: int = 0) -> dict[str, int]:
    """Bytes of main memory and of the GPU, as in a report."""
    return {"main": main, "gpu": gpu}
