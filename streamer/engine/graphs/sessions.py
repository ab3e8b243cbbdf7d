"""Opens graphs with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnxruntime

from streamer.engine.graphs.placement import Placement
from streamer.graphs.free_batch import with_free_batch
from streamer.graphs.int8_graph import Int8Graph
from streamer.graphs.model_folder import ModelFolderError
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.faster_graph import faster_graph


def open_graph(graph: GraphFile) -> onnxruntime.InferenceSession:
    """Return a session for this graph on the CPU. ModelFolderError if onnxruntime refuses it."""
    return open_content(graph, graph_content(graph))


def graph_content(graph: GraphFile) -> bytes:
    """Return the content of a file, rewritten for its computation. ModelFolderError if that fails.

    A graph in int8 is computed in full numbers, so that the results of a stream do not depend on other streams. Parts
    that onnxruntime computes slowly are replaced.
    """
    try:
        content = graph.path.read_bytes()
        if graph.quantised:
            content = Int8Graph(content).full_content()
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
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = plans
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors only: warnings are about the export, which is not the user's
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # so weights become full numbers only once
    if folder is not None:
        # Without this option, onnxruntime does not know the folder of a graph that it gets as content.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if once:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.add_session_config_entry("session.disable_prepacking", "1")
    providers = ["CPUExecutionProvider"] if placement is None else placement.providers()
    session = onnxruntime.InferenceSession(content, options, providers=providers, disabled_optimizers=list(without))
    vars(session)["_model_bytes"] = None  # it would keep the content, as large as the weights, to open it again
    return session


def _refused(graph: GraphFile, error: Exception) -> ModelFolderError:
    reason = str(error).splitlines()[0][:300]
    return ModelFolderError(f"{graph.path} is not accepted by onnxruntime: {reason}")
