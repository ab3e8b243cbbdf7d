"""Where the encoder of a public model is computed: on which GPU, or on the CPU."""

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
    """What computes, by its name in onnxruntime and torch."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True)
class Placement:
    """A device where weights and states stay. Only what is heard goes there, and only the frames come back."""

    kind: DeviceKind
    number: int = 0

    @property
    def name(self) -> str:
        """As torch calls it."""
        return f"{self.kind.value}:{self.number}"

    def providers(self) -> list[Any]:
        """What onnxruntime computes with, the first choice first."""
        if self.kind is DeviceKind.CPU:
            return [_CPU]
        # One queue of work for both: torch moves states only after the graph has given them. Numbers are computed in
        # full, because shorter ones are rounded differently in batches of different sizes.
        queue = str(_queue(self.number).cuda_stream)
        return [(_CUDA, {"device_id": self.number, "user_compute_stream": queue, "use_tf32": "0"}), _CPU]

    def working(self) -> AbstractContextManager[object]:
        """What torch does within this comes after what onnxruntime does there, and before what it does next."""
        if self.kind is DeviceKind.CPU:
            return nullcontext()
        import torch

        return torch.cuda.stream(_queue(self.number))

    def taken_by(self, session: onnxruntime.InferenceSession) -> bool:
        """Whether this session computes there. onnxruntime takes the CPU if a library of CUDA is missing."""
        return self.kind is DeviceKind.CPU or _CUDA in session.get_providers()


@cache
def _queue(number: int) -> torch.cuda.Stream:
    """The queue of work for a GPU. The usual one of torch would not do: onnxruntime takes it for none."""
    import torch  # not needed elsewhere, and the import takes seconds

    return torch.cuda.Stream(torch.device("cuda", number))


def on_gpu(number: int) -> Placement | None:
    """The GPU with this number. None if it cannot be used; the log says why."""
    reason = _missing()
    if reason is not None:
        report_cpu(reason)
        return None
    # The libraries of CUDA that came with torch: those of the system may be missing, or of another version.
    onnxruntime.preload_dlls()
    return Placement(DeviceKind.CUDA, number)


def report_cpu(reason: str) -> None:
    """Say in the log that the CPU computes, and why."""
    _LOG.warning("The public model computes on the CPU, although there is a GPU: %s", reason)


def not_taken() -> str:
    """Why a session did not take the GPU for which it was meant."""
    return f"onnxruntime {onnxruntime.__version__} could not load the libraries of CUDA and cuDNN. {_PACKAGE}"


def _missing() -> str | None:
    """What is missing for computing on a GPU."""
    if _CUDA not in onnxruntime.get_available_providers():
        return f"this onnxruntime was built without CUDA. {_PACKAGE}"
    if importlib.util.find_spec("torch") is None:
        return "the states of streams are kept there with torch, which is not installed."
    import torch

    return None if torch.cuda.is_available() else "torch cannot use it."
