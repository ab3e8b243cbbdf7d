"""Opens graphs with onnxruntime."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import onnxruntime

from streamer.base.package import install_command
from streamer.models.byte_products import multiply_bytes
from streamer.models.faster_graph import faster_graph, with_free_batch
from streamer.models.int8_graph import Int8Graph
from streamer.models.model_folder import ModelFolderError
from streamer.models.onnx_file import GraphFile

if TYPE_CHECKING:
    import torch


def open_graph(graph: GraphFile) -> onnxruntime.InferenceSession:
    """Return a session for this graph on the CPU. ModelFolderError if onnxruntime refuses it."""
    return open_content(graph, graph_content(graph))


def open_ort(graph: GraphFile) -> onnxruntime.InferenceSession:
    """Return a session for a file in the format of onnxruntime, on the CPU. ModelFolderError if it is refused."""
    try:
        # Each run has other shapes, so plans of the memory would only take memory.
        return onnxruntime.InferenceSession(str(graph.path), _options(False), providers=[_CPU])
    except Exception as error:  # its exceptions have no common class
        raise _refused(graph, error) from error


def graph_content(graph: GraphFile, placement: Placement | None = None) -> bytes:
    """Return the content of a file, rewritten for its computation there. ModelFolderError if that fails.

    A graph in int8 rounds each row by itself on a CPU, and computes in full numbers elsewhere, so that the results of a
    stream do not depend on other streams. Parts that onnxruntime computes slowly are replaced.
    """
    try:
        content = graph.path.read_bytes()
        if graph.quantised:
            content = Int8Graph(content).full_content()
            if placement is None or placement.kind is DeviceKind.CPU:
                content = multiply_bytes(content)
        if graph.freed:
            content = with_free_batch(content, graph.freed)
        return faster_graph(content)
    except Exception as error:  # each step has exceptions of its own
        raise _refused(graph, error) from error


def open_content(
    graph: GraphFile, content: bytes, placement: Placement | None = None, *, once: bool = False
) -> onnxruntime.InferenceSession:
    """Return a session for the content of this graph, or a part of it. ModelFolderError if onnxruntime refuses it."""
    try:
        return new_session(content, folder=graph.path.parent, placement=placement, once=once)
    except Exception as error:  # its exceptions have no common class
        raise _refused(graph, error) from error


def new_session(
    content: bytes,
    *,
    folder: Path | None = None,
    placement: Placement | None = None,
    once: bool = False,
    plans: bool = True,
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """Return a session with one thread, because instances share the cores.

    `folder` has the weights of a graph whose content does not have them. A session that computes `once` opens sooner
    and keeps no memory for another run. `plans`: whether onnxruntime plans the memory of a run ahead, for each shape of
    the inputs. `without` names optimisations that make this graph slower.
    """
    options = _options(plans, folder)
    if once:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.add_session_config_entry("session.disable_prepacking", "1")
    providers = [_CPU] if placement is None else placement.providers()
    return _opened(content, options, providers, without)


WEIGHTS: Final = "weights.bin"
"""The file with the weights of an optimised graph."""


def write_optimised(content: bytes, folder: Path, *, without: Sequence[str] = ()) -> None:
    """Write the files of a graph as this processor computes it: optimised, and with its weights in their order.

    OSError if that fails.
    """
    options = _options(False)
    options.optimized_model_filepath = str(folder / _GRAPH)
    for name, value in {
        "optimized_model_external_initializers_file_name": WEIGHTS,
        "optimized_model_external_initializers_min_size_in_bytes": str(_LEAST_OUTSIDE),
        "save_external_prepacked_constant_initializers": "1",
    }.items():
        options.add_session_config_entry(f"session.{name}", value)
    try:
        _opened(content, options, [_CPU], without)
    except Exception as error:  # its exceptions have no common class
        raise OSError(f"onnxruntime cannot write into {folder}: {error}") from error


def open_optimised(folder: Path, *, plans: bool = True) -> onnxruntime.InferenceSession:
    """Return a session like `new_session` for the files that `write_optimised` wrote. Their weights are mapped.

    OSError if they are damaged.
    """
    options = _options(plans, folder)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return _opened((folder / _GRAPH).read_bytes(), options, [_CPU])
    except Exception as error:  # its exceptions have no common class
        raise OSError(f"onnxruntime cannot open {folder}: {error}") from error


_GRAPH: Final = "graph.onnx"
_LEAST_OUTSIDE: Final = 1024  # the bytes of a constant that is not in the file of the graph


def _options(plans: bool, folder: Path | None = None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = plans
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors only: warnings are about the export, which is not the user's
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # so weights become full numbers only once
    if folder is not None:
        # Without this option, onnxruntime does not know the folder of a graph that it gets as content.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return options


def _opened(
    content: bytes, options: onnxruntime.SessionOptions, providers: list[Any], without: Sequence[str] = ()
) -> onnxruntime.InferenceSession:
    session = onnxruntime.InferenceSession(content, options, providers=providers, disabled_optimizers=list(without))
    vars(session)["_model_bytes"] = None  # it would keep the content, as large as the weights, to open it again
    return session


def _refused(graph: GraphFile, error: Exception) -> ModelFolderError:
    return ModelFolderError(f"{graph.path} is not accepted by onnxruntime: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """Return what an error says, in one line that can be printed: it may quote names from a hostile graph."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return "".join(each if each.isprintable() else "?" for each in line[:300])


# Decides where the encoder of a public model is computed: on a GPU or on the CPU.

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
        return f"torch, which keeps the states of streams there, is not installed ({install_command('gpu')})."
    import torch

    return None if torch.cuda.is_available() else "torch cannot use it."
