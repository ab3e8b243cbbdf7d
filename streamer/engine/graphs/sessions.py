"""Opens the graphs of a public model with onnxruntime."""

from __future__ import annotations

import onnxruntime

from streamer.graphs.free_batch import with_free_batch
from streamer.graphs.int8_graph import Int8Graph
from streamer.graphs.model_folder import ModelFolderError
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.faster_graph import faster_graph


def open_graph(graph: GraphFile) -> onnxruntime.InferenceSession:
    """A session with one thread: instances share the cores. ModelFolderError if onnxruntime refuses the graph.

    A graph in int8 is computed in full numbers, so that a stream does not depend on its company. What onnxruntime
    computes slowly is rewritten.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors: warnings are about the export, which the user did not make
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # so weights become full numbers only once
    try:
        content = graph.path.read_bytes()
        if graph.quantised:
            content = Int8Graph(content).rewritten()
        if graph.freed:
            content = with_free_batch(content, graph.freed)
        content = faster_graph(content)
        # Content that was read here does not say where the files with its weights are.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(graph.path.parent))
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class
        reason = str(error).splitlines()[0][:300]
        raise ModelFolderError(f"{graph.path} is not accepted by onnxruntime: {reason}") from error
    vars(session)["_model_bytes"] = None  # it would keep the file, as large as the weights, to open it again elsewhere
    return session
