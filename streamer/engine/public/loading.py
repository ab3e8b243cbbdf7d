"""Loads a recogniser from the folder of a public model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from streamer.base.limits import BEAM, GREEDY
from streamer.base.package import shipped
from streamer.engine.acoustics.acoustic_model import load_activity
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.acoustics.features import LogMel
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.loading_times import LOADING
from streamer.engine.public.beam import CtcBeamSearch, RecurrentBeamSearch, TransducerBeamSearch
from streamer.engine.public.graph_model import GraphModel
from streamer.engine.public.greedy import (
    CtcGreedySearch,
    DurationGreedySearch,
    RecurrentGreedySearch,
    TokenSearch,
    TransducerGreedySearch,
)
from streamer.engine.public.hotwords import PhraseTokens
from streamer.engine.public.moonshine_model import MoonshineModel
from streamer.engine.public.moonshine_search import MoonshineSearch
from streamer.engine.public.sessions import Placement, reason_of
from streamer.engine.public.transducers import RecurrentGraphs, TransducerGraphs
from streamer.engine.recogniser import Recogniser
from streamer.models.layout import RecurrentTransducer
from streamer.models.model_folder import ModelFolderError, PublicModel, read_any_folder
from streamer.models.moonshine_folder import MoonshineFolder

_LOG: Final = logging.getLogger(__name__)
_ACTIVITY: Final = "asr_repo/streaming_asr/1"
"""The folder with the network that detects speech."""


def load_public_model(
    folder: Path, *, name: str, slots: int, idle_limit_s: float = 20.0, placement: Placement | None = None
) -> Recogniser:
    """Return a recogniser with this many slots and the searches of its family. ModelFolderError if it cannot be used.

    The encoder is computed where `placement` says, and the searches on the CPU. Moonshine is computed on the CPU.
    """
    public = read_any_folder(folder)
    try:
        for cost in public.costs:
            _LOG.warning("The model %s costs more than others: %s", name, cost)
        if isinstance(public, MoonshineFolder):
            return _moonshine(public, name, slots, idle_limit_s)
        model = GraphModel(public, name, placement)
        LOADING.mark("encoder")
        searches = token_searches(public, slots)
        LOADING.mark("searches")
    except ModelFolderError:
        raise
    except Exception as error:  # the exceptions of onnxruntime have no common class
        raise ModelFolderError(f"{folder} cannot be computed: {reason_of(error)}") from error
    return Recogniser(model, searches, slots=slots, idle_limit_s=idle_limit_s)


def _moonshine(public: MoonshineFolder, name: str, slots: int, idle_limit_s: float) -> Recogniser:
    """Return a recogniser whose segments follow from the activity that the shipped network detects.

    A decoder writes words for music and noise as well, and does not say when they were said.
    """
    activity, detector = None, None
    mels = 0
    try:
        activity = load_activity(shipped(_ACTIVITY))
    except (BundleError, FileNotFoundError) as error:
        _LOG.warning("%s ends segments by its words alone: %s", name, error)
    if activity is not None:
        mels = activity.mels
        detector = SpeechDetector.make(LogMel.plain(mels), activity, slots)
    model = MoonshineModel(public, name, activity, mels)
    LOADING.mark("encoder")
    searches = {GREEDY: MoonshineSearch(public, slots)}
    LOADING.mark("searches")
    return Recogniser(model, searches, slots=slots, detector=detector, idle_limit_s=idle_limit_s)


def token_searches(public: PublicModel, slots: int) -> dict[str, TokenSearch]:
    """Return the searches for this family by name. Streams that do not choose use the first one."""
    tokens, phrases = public.tokens, PhraseTokens(public.tokens, public.pieces)
    if public.transducer is None:
        greedy: TokenSearch = CtcGreedySearch(tokens, public.blank, slots)
        return {GREEDY: greedy, BEAM: CtcBeamSearch(tokens, public.blank, phrases, slots)}
    if isinstance(public.transducer, RecurrentTransducer):
        recurrent = RecurrentGraphs(public.transducer)
        if public.transducer.durations:
            return {GREEDY: DurationGreedySearch(tokens, recurrent, slots)}
        greedy = RecurrentGreedySearch(tokens, recurrent, slots)
        return {GREEDY: greedy, BEAM: RecurrentBeamSearch(tokens, recurrent, phrases, slots)}
    graphs = TransducerGraphs(tokens, public.transducer)
    greedy = TransducerGreedySearch(tokens, graphs, slots)
    return {GREEDY: greedy, BEAM: TransducerBeamSearch(tokens, graphs, phrases, slots)}
