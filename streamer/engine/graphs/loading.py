"""Loads a recogniser from the folder of a public model."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.graphs.ctc_greedy import CtcGreedySearch
from streamer.engine.graphs.graph_model import GraphModel
from streamer.engine.graphs.token_search import TokenSearch
from streamer.engine.graphs.transducer_greedy import TransducerGreedySearch
from streamer.engine.recogniser import Recogniser
from streamer.graphs.model_folder import PublicModel, read_model_folder


def load_public_model(folder: Path, *, name: str, slots: int, idle_limit_s: float = 20.0) -> Recogniser:
    """A recogniser with this many slots and the search `greedy`. ModelFolderError if the folder cannot be used."""
    public = read_model_folder(folder)
    return Recogniser(
        GraphModel(public, name), {"greedy": greedy_search(public, slots)}, slots=slots, idle_limit_s=idle_limit_s
    )


def greedy_search(public: PublicModel, slots: int) -> TokenSearch:
    """The greedy search for this family."""
    if public.transducer is not None:
        return TransducerGreedySearch(public.tokens, public.transducer, slots)
    return CtcGreedySearch(public.tokens, public.blank, slots)
