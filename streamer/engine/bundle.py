"""Loads a recogniser from a bundle, the folder that holds everything it needs.

- `model.json` and `weights.pt`: the acoustic model
- `lexicon.safetensors`, `language.safetensors` and `search.json`: what the search needs to turn phones into words
- `letters.safetensors`: the pronunciation of words that are not in the lexicon
- `rescoring.safetensors` (optional): a neural language model that scores words again
- `calibration.json` (optional): corrections of times and confidences
- `activity.pt` (optional): the network that detects whether somebody is speaking
- `punctuation.safetensors` (optional): marks and capitals for the written form, and the end of turns
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Protocol

import torch

from streamer.base.machine import give_back_freed_memory
from streamer.engine.acoustics.acoustic_model import (
    MODEL_FILE,
    AcousticModel,
    BundleError,
)
from streamer.engine.acoustics.acoustics import Acoustics
from streamer.engine.acoustics.speech_detector import ActivityNetwork, SpeechDetector
from streamer.engine.acoustics.streaming_model import SlotNetwork, StreamingModel
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.neural_model import NEURAL_FILE, NeuralModel, NeuralWeights
from streamer.engine.loading_times import LOADING
from streamer.engine.model_file import ModelFileError
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.rescoring import Rescorer
from streamer.engine.search.search import BeamOptions, Search
from streamer.engine.text.calibration import CALIBRATION_FILE, Calibration
from streamer.engine.text.punctuation_model import PUNCTUATION_FILE, PunctuationModel

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LEXICON_FILE = "lexicon.safetensors"
LETTERS_FILE = "letters.safetensors"
SEARCH_FILE = "search.json"
SEARCH_HEADS = ("phones", "characters")  # the heads of the encoder that the searches read


class NamedUnits(StreamingModel, Protocol):
    """A streaming model that says what its units are, for each of its outputs."""

    units: dict[str, list[str]]


def load_recogniser(
    folder: Path | str,
    *,
    slots: int,
    device: torch.device | str = "cpu",
    precision: str | None = None,
    idle_limit_s: float = 20.0,
) -> Recogniser:
    """Return a recogniser with this many slots and the searches `lexicon` and `greedy`. BundleError says what is wrong.

    `precision` is the number format of the encoder; by default the best one for this machine.
    """
    LOADING.mark("engine")
    folder = Path(folder)
    model = load_acoustic_model(folder, device, precision or best_precision(device))
    if computes_graphs(device) and precision != "bfloat16":
        compile_steps(model)
    detector = model.detector(slots)
    return assemble_recogniser(folder, model, None, detector, slots=slots, device=device, idle_limit_s=idle_limit_s)


def load_acoustic_model(folder: Path, device: torch.device | str, precision: str) -> AcousticModel:
    """Load the acoustic model of a bundle. BundleError if the searches could not read it."""
    model = AcousticModel.load(folder, device=device, dtype=PRECISIONS[precision])
    for output in model.description.encoder.outputs:
        if output.name in SEARCH_HEADS and output.layer < model.description.encoder.layers:
            raise BundleError(f"{folder / MODEL_FILE}: the head {output.name} does not read the last layer")
    return model


def compile_steps(model: AcousticModel) -> None:
    """Let graphs compute the steps of a model."""
    from streamer.engine.network_graphs import CompiledEncoder  # here, because a GPU does not need it

    activity = model.activity
    compiled = compiled_activity(activity) if isinstance(activity, ActivityNetwork) else None
    model.compute_steps_with(CompiledEncoder(model.encoder), compiled)


def compiled_activity(network: ActivityNetwork) -> SlotNetwork:
    """Return the activity network as a graph."""
    from streamer.engine.network_graphs import CompiledActivity

    return CompiledActivity(network)


def assemble_recogniser(
    folder: Path,
    model: NamedUnits,
    acoustics: Acoustics | None,
    detector: SpeechDetector | None,
    *,
    slots: int,
    device: torch.device | str,
    idle_limit_s: float,
) -> Recogniser:
    """Put a recogniser together from a model and what the bundle has for the words. BundleError says what is wrong."""
    LOADING.mark("networks")
    try:
        lexicon, language = Lexicon.load(folder / LEXICON_FILE), LanguageModel.load(folder / LANGUAGE_FILE)
        if lexicon.vocabulary != language.vocabulary:
            raise ValueError(f"{LEXICON_FILE} and {LANGUAGE_FILE} do not have the same words: build the lexicon again")
        LOADING.mark("lexicon and language model")
        first, second = (BeamOptions.load(folder / SEARCH_FILE, second_pass=is_second) for is_second in (False, True))
        letters = LetterToSound.load(folder / LETTERS_FILE)
        units = model.units["phones"]
        rescorer = load_rescorer(folder, language, device)
        beam = BeamSearch(lexicon, language, units, slots, first, letters=letters, rescorer=rescorer)
        second_searches: dict[str, Search] = {}
        if acoustics is None:  # this recogniser has the audio, so it can do a second pass
            wide = BeamSearch(lexicon, language, units, slots, second, rescorer=rescorer, first=beam)
            second_searches["lexicon"] = wide
        LOADING.mark("search and its loops")
        calibration = Calibration.load(folder / CALIBRATION_FILE) if (folder / CALIBRATION_FILE).exists() else None
        punctuation = PunctuationModel.load(folder) if (folder / PUNCTUATION_FILE).exists() else None
    except (ModelFileError, OSError, TypeError, ValueError) as error:
        raise BundleError(str(error)) from error
    LOADING.mark("marks")
    give_back_freed_memory()
    searches: dict[str, Search] = {"lexicon": beam, "greedy": GreedySearch(model.units["characters"], slots)}
    return Recogniser(
        model,
        searches,
        slots=slots,
        calibration=calibration,
        punctuation=punctuation,
        acoustics=acoustics,
        detector=detector,
        second_searches=second_searches,
        idle_limit_s=idle_limit_s,
    )


def load_rescorer(folder: Path, language: LanguageModel, device: torch.device | str = "cpu") -> Rescorer | None:
    """Return the rescorer with the neural language model of a bundle; None if the bundle has none."""
    path = folder / NEURAL_FILE
    if not path.exists():
        return None
    weights = NeuralWeights.load(path)
    if computes_graphs(device):
        from streamer.engine.network_graphs import CompiledReading

        return Rescorer(NeuralModel(weights, CompiledReading(weights)), language)
    from streamer.engine.networks.neural_network import NeuralNetwork  # here, because it imports torch

    return Rescorer(NeuralNetwork.of(weights, device), language)


def computes_graphs(device: torch.device | str) -> bool:
    """Return whether onnxruntime computes networks on this device as graphs: on a CPU, if it is installed."""
    return torch.device(device).type == "cpu" and importlib.util.find_spec("onnxruntime") is not None


def best_precision(device: torch.device | str) -> str:
    """Return the best number format of the encoder for this device. Graphs have only one."""
    return "float32" if computes_graphs(device) else quick_precision(device)


def quick_precision(device: torch.device | str) -> str:
    """Return the number format in which torch is fastest: bfloat16 on processors that support it, else float32."""
    capabilities = torch.cpu.get_capabilities() if torch.device(device).type == "cpu" else {}
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"
