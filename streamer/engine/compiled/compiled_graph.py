"""A network that onnxruntime computes as a graph."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.engine.graphs.sessions import new_session


class CompiledGraph:
    """Computes the graph of a network in a session of its own."""

    def __init__(self, content: bytes, *, plans: bool = True, without: Sequence[str] = ()) -> None:
        """`content` is the content of the file of the graph. For the options, see `new_session`."""
        self._size = len(content)
        self._session = new_session(content, plans=plans, without=without)

    def __sizeof__(self) -> int:
        """Return the size with the weights, which are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size
