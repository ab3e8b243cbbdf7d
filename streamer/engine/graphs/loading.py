"""Loads a recogniser from the folder of a public model."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.graphs.graph_model import GraphModel
from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.engine.graphs.placement import Placement
from streamer.engine.graphs.search.ctc_beam import CtcBeamSearch
from streamer.engine.graphs.search.ctc_greedy import CtcGreedySearch
from streamer.engine.graphs.search.recurrent_graphs import RecurrentGraphs
from streamer.engine.graphs.search.recurrent_greedy import RecurrentGreedySearch
from streamer.engine.graphs.search.token_search import TokenSearch
from streamer.engine.graphs.search.transducer_beam import TransducerBeamSearch
from streamer.engine.graphs.search.transducer_graphs import TransducerGraphs
from streamer.engine.graphs.search.transducer_greedy import TransducerGreedySearch
from streamer.engine.recogniser import Recogniser
from streamer.graphs.model_folder import PublicModel, read_model_folder
from streamer.graphs.transducer import RecurrentTransducer
from streamer.limits import BEAM, GREEDY


def load_public_model(
    folder: Path, *, name: str, slots: int, idle_limit_s: float = 20.0, placement: Placement | None = None
) -> Recogniser:
    """Return a recogniser with this many slots and the searches of its family. ModelFolderError if it cannot be used.

    The encoder is computed where `placement` says, and the searches on the CPU.
    """
    public = read_model_folder(folder)
    model = GraphModel(public, name, placement)
    return Recogniser(model, token_searches(public, slots), slots=slots, idle_limit_s=idle_limit_s)


def token_searches(public: PublicModel, slots: int) -> dict[str, TokenSearch]:
    """Return the searches for this family by name. Streams that do not choose use the first one."""
    tokens, phrases = public.tokens, PhraseTokens(public.tokens, public.pieces)
    if public.transducer is None:
        greedy: TokenSearch = CtcGreedySearch(tokens, public.blank, slots)
        return {GREEDY: greedy, BEAM: CtcBeamSearch(tokens, public.blank, phrases, slots)}
    if isinstance(public.transducer, RecurrentTransducer):
        return {GREEDY: RecurrentGreedySearch(tokens, RecurrentGraphs(public.transducer), slots)}
    graphs = TransducerGraphs(tokens, public.transducer)
    greedy = TransducerGreedySearch(tokens, graphs, slots)
    return {GREEDY: greedy, BEAM: TransducerBeamSearch(tokens, graphs, phrases, slots)}
