"""The memory of the present process, and of its GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch


class GpuMemory:
    """The memory of a GPU. Without a GPU, all sizes are 0."""

    def __init__(self, device: str) -> None:
        self.name, self.total, self.context, self._device = "", None, 0, device
        if device != "cpu":
            free, self.total = torch.cuda.mem_get_info(device)  # this call prepares the GPU for the process
            self.name, self.context = torch.cuda.get_device_name(device), self.total - free

    @property
    def used(self) -> int:
        """The memory that torch has reserved for tensors, in use or not."""
        return torch.cuda.memory_reserved(self._device) if self.total is not None else 0

    @property
    def described(self) -> dict[str, Any]:
        """The description of the device for a report."""
        return {"kind": "cpu"} if self.total is None else {"kind": "gpu", "name": self.name, "memory": self.total}


def resident() -> dict[str, int]:
    """Return the memory of this process. RssAnon is its own, RssFile is mapped from files that processes share."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return {name: 1024 * int(size) for name, size in re.findall(r"^(Rss\w+):\s*(\d+) kB$", status, re.MULTILINE)}


def sizes(main: int, gpu: int = 0) -> dict[str, int]:
    """Return sizes in main memory and on the GPU for a report."""
    return {"main": main, "gpu": gpu}
