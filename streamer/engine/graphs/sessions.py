"""Opens graphs with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnxruntime

from streamer.graphs.free_batch import with_free_batch
from streamer.graphs.int8_graph import Int8Graph
from streamer.graphs.model_folder import ModelFolderError
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.faster_graph import faster_graph


def open_graph(graph: GraphFile) -> onnxruntime.InferenceSession:
    """A session for the graph of a public model. ModelFolderError if onnxruntime refuses it.

    A graph in int8 is computed in full numbers, so that a stream does not depend on its company. What onnxruntime
    computes slowly is rewritten.
    """
    try:
        content = graph.path.read_bytes()
        if graph.quantised:
            content = Int8Graph(content).rewritten()
        if graph.freed:
            content = with_free_batch(content, graph.freed)
        return open_content(faster_graph(content), graph.path.parent)
    except Exception as error:  # its exceptions have no common class
        reason = str(error).splitlines()[0][:300]
        raise ModelFolderError(f"{graph.path} is not accepted by onnxruntime: {reason}") from error


def open_content(
    content: bytes, folder: Path | None = None, *, without: Sequence[str] = (), plans: bool = True
) -> onnxruntime.InferenceSession:
    """A session with one thread: instances share the cores.

    `folder` has the weights of a graph whose content is not complete. `without` names optimisations that make a graph
    slower. `plans`: whether the memory of a run is planned ahead, for each shape of the inputs.
    """
    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = plans
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors: warnings are about the export, which the user did not make
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # so weights become full numbers only once
    if folder is not None:
        # Content that was read before does not say where the files with its weights are.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(content, options, providers=providers, disabled_optimizers=list(without))
    vars(session)["_model_bytes"] = None  # it would keep the file, as large as the weights, to open it again elsewhere
    return session
