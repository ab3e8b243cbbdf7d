"""Loads a recogniser from a bundle, the folder that holds everything it needs.

- `model.json` and `weights.safetensors`: the acoustic model
- `lexicon.safetensors`, `language.safetensors` and `search.json`: what the search needs to turn phones into words
- `letters.safetensors`: the pronunciation of words that are not in the lexicon
- `rescoring.safetensors` (optional): a neural language model that scores words again
- `reader.json` (optional): whose words are taken where a reader and the recogniser differ; needed for a reader
- `calibration.json` (optional): corrections of times and confidences
- `activity.safetensors` (optional): the network that detects whether somebody is speaking
- `punctuation.safetensors` (optional): marks and capitals for the written form, and the end of turns
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Final, Protocol

from streamer.base.machine import give_back_freed_memory
from streamer.base.torch_import import CPU, import_torch
from streamer.engine.acoustics.acoustic_model import AcousticModel, SpeechModel, load_activity, load_heads
from streamer.engine.acoustics.acoustics import Acoustics
from streamer.engine.acoustics.bundle_files import (
    ACTIVITY_FILE,
    MODEL_FILE,
    BundleError,
    ModelDescription,
    read_description,
)
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.acoustics.streaming_model import FrameReader, SlotNetwork, StreamingModel
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.neural_model import NEURAL_FILE, NeuralModel, NeuralWeights
from streamer.engine.language.reading_graph import CompiledReading
from streamer.engine.loading_times import LOADING
from streamer.engine.model_file import ModelFileError
from streamer.engine.network_graphs import Precision
from streamer.engine.reader.alignment import Aligner
from streamer.engine.reader.combination import READER_FILE, Mixtures
from streamer.engine.reader.line_language import LineLanguage
from streamer.engine.reader.reader_pass import ReaderPass
from streamer.engine.reader.segment_reader import SegmentReader
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.rescoring import Rescorer
from streamer.engine.search.search import BeamOptions, Search
from streamer.engine.text.calibration import CALIBRATION_FILE, Calibration
from streamer.engine.text.punctuation_model import PUNCTUATION_FILE, PunctuationModel

LEXICON_FILE = "lexicon.safetensors"
LETTERS_FILE = "letters.safetensors"
SEARCH_FILE = "search.json"
_LOG: Final = logging.getLogger(__name__)
SEARCH_HEADS = ("phones", "characters")  # the heads of the encoder that the searches read


class NamedUnits(StreamingModel, Protocol):
    """A streaming model that says what its units are, for each of its outputs."""

    units: dict[str, list[str]]


def load_recogniser(
    folder: Path | str,
    *,
    slots: int,
    device: str = CPU,
    precision: str | None = None,
    idle_limit_s: float = 20.0,
    reader: SegmentReader | None = None,
    reads_alone: bool = False,
    threads: int = 1,
    pipelined: bool = False,
) -> Recogniser:
    """Return a recogniser with this many slots and the searches `lexicon` and `greedy`. BundleError says what is wrong.

    `precision` is the number format of the encoder; by default the best one for this machine. `reader` reads the
    segments of streams that want it, with `reads_alone` those of all streams, whose words are its alone. The streams
    of a batch are divided over this many `threads`. `pipelined`: the networks may compute a batch while another one is
    searched.
    """
    LOADING.mark("engine")
    folder = Path(folder)
    model = load_acoustic_model(folder, device, precision)
    detector = model.detector(slots)
    return assemble_recogniser(
        folder,
        model,
        None,
        detector,
        slots=slots,
        device=device,
        idle_limit_s=idle_limit_s,
        reader=reader,
        reads_alone=reads_alone,
        threads=threads,
        pipelined=pipelined,
    )


# The acoustic model: graphs compute it on a CPU, and torch computes it elsewhere. So only the latter imports torch.


def load_acoustic_model(
    folder: Path, device: str, precision: str | None = None, *, activity: bool = True
) -> SpeechModel:
    """Load the acoustic model of a bundle, with its activity network if wanted. BundleError says what is wrong."""
    _check_heads(folder, read_description(folder))
    if computes_graphs(device) and precision in (None, *(each.value for each in Precision)):
        return AcousticModel.load(folder, activity=activity, precision=Precision(precision or Precision.BYTES))
    if precision == Precision.BYTES.value:
        raise BundleError(f"only onnxruntime on a CPU computes {folder} in {precision}")
    if device == CPU and precision is None:
        _LOG.warning("Torch computes %s on the CPU, which takes more memory: onnxruntime is not installed", folder)
    import_torch()
    import torch

    if device == CPU:
        torch.set_num_threads(1)  # instances share the cores, so more threads would only wait for other instances
    from streamer.engine.networks.acoustic_network import PRECISIONS, AcousticNetwork, quick_precision
    from streamer.engine.networks.step_graphs import GraphedNetwork

    network = AcousticNetwork if device == CPU else GraphedNetwork
    return network.load(folder, device, PRECISIONS[precision or quick_precision(device)], activity=activity)


def load_frame_reader(folder: Path, device: str) -> tuple[ModelDescription, FrameReader]:
    """Load the description and the heads of a bundle. BundleError says what is wrong."""
    description = read_description(folder)
    _check_heads(folder, description)
    if computes_graphs(device):
        return description, load_heads(folder)
    model = load_acoustic_model(folder, device, activity=False)
    return description, model


def load_activity_network(folder: Path, device: str) -> tuple[int, SlotNetwork]:
    """Load the activity network of a bundle, after the number of energies that it reads. BundleError if it has none."""
    if computes_graphs(device):
        graph = load_activity(folder)
        if graph is not None:
            return graph.mels, graph
    else:
        from streamer.engine.networks.acoustic_network import read_activity
        from streamer.engine.networks.host_arrays import HostActivity

        network = read_activity(folder)
        if network is not None:
            hosted = HostActivity(network.to(device).eval().requires_grad_(False))
            return hosted.mels, hosted
    raise BundleError(f"{folder / ACTIVITY_FILE} is missing: there is no activity network")


def _check_heads(folder: Path, description: ModelDescription) -> None:
    """Raise BundleError if the searches could not read the heads of this model."""
    for output in description.encoder.outputs:
        if output.name in SEARCH_HEADS and output.layer < description.encoder.layers:
            raise BundleError(f"{folder / MODEL_FILE}: the head {output.name} does not read the last layer")


def assemble_recogniser(
    folder: Path,
    model: NamedUnits,
    acoustics: Acoustics | None,
    detector: SpeechDetector | None,
    *,
    slots: int,
    device: str,
    idle_limit_s: float,
    reader: SegmentReader | None = None,
    reads_alone: bool = False,
    threads: int = 1,
    pipelined: bool = False,
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
        reader_pass = None
        if reader is not None and (folder / READER_FILE).exists():
            mixtures = Mixtures.load(folder / READER_FILE)
            aligner = Aligner(lexicon, language.words, units, letters)
            reader_pass = ReaderPass(reader, aligner, LineLanguage(language, aligner.numbers, rescorer), mixtures)
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
        reader_pass=reader_pass,
        reads_alone=reads_alone,
        idle_limit_s=idle_limit_s,
        threads=threads,
        pipelined=pipelined,
    )


def load_rescorer(folder: Path, language: LanguageModel, device: str = CPU) -> Rescorer | None:
    """Return the rescorer with the neural language model of a bundle; None if the bundle has none."""
    path = folder / NEURAL_FILE
    if not path.exists():
        return None
    weights = NeuralWeights.load(path)
    if computes_graphs(device):
        return Rescorer(NeuralModel(weights, CompiledReading(weights)), language)
    from streamer.engine.networks.neural_network import NeuralNetwork  # here, because it imports torch

    return Rescorer(NeuralNetwork.of(weights, device), language)


def computes_graphs(device: str) -> bool:
    """Return whether onnxruntime computes networks on this device as graphs: on a CPU, if it is installed."""
    return device == CPU and importlib.util.find_spec("onnxruntime") is not None
