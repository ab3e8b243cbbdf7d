"""Loads a recogniser from the folder of a public model."""

from __future__ import annotations

from pathlib import Path

from streamer.base.limits import BEAM, GREEDY
from streamer.engine.loading_times import LOADING
from streamer.engine.public.beam import CtcBeamSearch, TransducerBeamSearch
from streamer.engine.public.graph_model import GraphModel
from streamer.engine.public.greedy import CtcGreedySearch, RecurrentGreedySearch, TokenSearch, TransducerGreedySearch
from streamer.engine.public.hotwords import PhraseTokens
from streamer.engine.public.sessions import Placement, reason_of
from streamer.engine.public.transducers import RecurrentGraphs, TransducerGraphs
from streamer.engine.recogniser import Recogniser
from streamer.models.layout import RecurrentTransducer
from streamer.models.model_folder import ModelFolderError, PublicModel, read_model_folder


def load_public_model(
    folder: Path, *, name: str, slots: int, idle_limit_s: float = 20.0, placement: Placement | None = None
) -> Recogniser:
    """Return a recogniser with this many slots and the searches of its family. ModelFolderError if it cannot be used.

    The encoder is computed where `placement` says, and the searches on the CPU.
    """
    public = read_model_folder(folder)
    try:
        model = GraphModel(public, name, placement)
        LOADING.mark("encoder")
        searches = token_searches(public, slots)
        LOADING.mark("searches")
    except ModelFolderError:
        raise
    except Exception as error:  # the exceptions of onnxruntime have no common class
        raise ModelFolderError(f"{folder} cannot be computed: {reason_of(error)}") from error
    return Recogniser(model, searches, slots=slots, idle_limit_s=idle_limit_s)


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
