"""Decides where the encoder of a public model is computed: on a GPU or on the CPU."""

from __future__ import annotations

import importlib.util
import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import onnxruntime

if TYPE_CHECKING:
    import torch

_LOG: Final = logging.getLogger(__name__)
_CUDA: Final = "CUDAExecutionProvider"
_CPU: Final = "CPUExecutionProvider"
_PACKAGE: Final = (
    "For a GPU, install the package onnxruntime-gpu instead of onnxruntime (1.27 or later for CUDA 13, as torch 2.11 "
    "has; up to 1.26 for CUDA 12)."
)


class DeviceKind(Enum):
    """A kind of device, by its name in onnxruntime and torch."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True)
class Placement:
    """A device where weights and states stay. Only features go there, and only frames come back."""

    kind: DeviceKind
    number: int = 0

    @property
    def name(self) -> str:
        """The name of the device in torch."""
        return f"{self.kind.value}:{self.number}"

    def providers(self) -> list[Any]:
        """Return the execution providers for onnxruntime, the first choice first."""
        if self.kind is DeviceKind.CPU:
            return [_CPU]
        # Both libraries use one queue of work, so torch moves states only after the graph has computed them. TF32 is
        # off, because its shorter numbers are rounded differently in batches of different sizes.
        queue = str(_queue(self.number).cuda_stream)
        return [(_CUDA, {"device_id": self.number, "user_compute_stream": queue, "use_tf32": "0"}), _CPU]

    def working(self) -> AbstractContextManager[object]:
        """Return a context in which torch uses the queue of onnxruntime, so that both work in the order of calls."""
        if self.kind is DeviceKind.CPU:
            return nullcontext()
        import torch

        return torch.cuda.stream(_queue(self.number))

    def taken_by(self, session: onnxruntime.InferenceSession) -> bool:
        """Return whether this session computes on this device. If a library of CUDA is missing, it uses the CPU."""
        return self.kind is DeviceKind.CPU or _CUDA in session.get_providers()


@cache
def _queue(number: int) -> torch.cuda.Stream:
    """Return the queue of work for a GPU. The default queue of torch does not do: onnxruntime takes it for none."""
    import torch  # here, because only a GPU needs it, and the import takes seconds

    return torch.cuda.Stream(torch.device("cuda", number))


def on_gpu(number: int) -> Placement | None:
    """Return the GPU with this number; None if it cannot be used. Then the log says why."""
    reason = _missing()
    if reason is not None:
        report_cpu(reason)
        return None
    # Load the CUDA libraries of torch, because those of the system may be missing or have another version.
    onnxruntime.preload_dlls()
    return Placement(DeviceKind.CUDA, number)


def report_cpu(reason: str) -> None:
    """Log that the CPU computes, and why."""
    _LOG.warning("The public model computes on the CPU, although there is a GPU: %s", reason)


def reason_not_taken() -> str:
    """Return the reason why a session does not use its GPU."""
    return f"onnxruntime {onnxruntime.__version__} could not load the libraries of CUDA and cuDNN. {_PACKAGE}"


def _missing() -> str | None:
    """Return the reason why no GPU can be used; None if it can."""
    if _CUDA not in onnxruntime.get_available_providers():
        return f"this onnxruntime was built without CUDA. {_PACKAGE}"
    if importlib.util.find_spec("torch") is None:
        return "torch, which keeps the states of streams there, is not installed."
    import torch

    return None if torch.cuda.is_available() else "torch cannot use it."
