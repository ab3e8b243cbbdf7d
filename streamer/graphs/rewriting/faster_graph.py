"""Rewrites a graph into one that gives the same results in less time."""

from __future__ import annotations

from streamer.graphs.rewriting.bounded_logs import bound_logs
from streamer.graphs.rewriting.editable_graph import EditableGraph
from streamer.graphs.rewriting.flat_convolutions import flatten_convolutions


def faster_graph(content: bytes) -> bytes:
    """Return the content of the file of such a graph. If there is nothing to rewrite, this is the same content."""
    graph = EditableGraph(content)
    count = flatten_convolutions(graph) + bound_logs(graph)
    return graph.content() if count else content
