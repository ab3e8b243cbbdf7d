"""Loads a recogniser from a bundle, the folder that holds everything it needs.

- `model.json` and `weights.pt`: the acoustic model
- `lexicon.safetensors`, `language.safetensors` and `search.json`: what the search needs to turn phones into words
- `letters.safetensors`: the pronunciation of words that are not in the lexicon
- `rescoring.safetensors` (optional): a neural language model that compares the alternatives where a segment ends
- `calibration.json` (optional): corrections of times and confidences
- `activity.pt` (optional): the network that detects whether somebody is speaking
- `punctuation.safetensors` (optional): marks and capitals for the written form
- `turns.safetensors` (optional): whether a turn is over after the words so far
"""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.neural_model import NEURAL_FILE, NeuralModel
from streamer.engine.language.rescoring import Rescorer
from streamer.engine.model_file import ModelFileError
from streamer.engine.models.acoustic_model import AcousticModel, BundleError
from streamer.engine.punctuation.punctuation_model import PUNCTUATION_FILE, PunctuationModel
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Search
from streamer.engine.text.calibration import CALIBRATION_FILE, Calibration
from streamer.engine.turn.turn_model import TURNS_FILE, TurnModel

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LEXICON_FILE = "lexicon.safetensors"
LETTERS_FILE = "letters.safetensors"
SEARCH_FILE = "search.json"


def load_recogniser(
    folder: Path | str,
    *,
    slots: int,
    device: torch.device | str = "cpu",
    precision: str | None = None,
    idle_limit_s: float = 20.0,
) -> Recogniser:
    """A recogniser with this many slots and the searches `lexicon` and `greedy`. BundleError says what is wrong.

    `precision` is the number format of the encoder; by default the best one for this machine.
    """
    folder = Path(folder)
    model = AcousticModel.load(folder, device=device, dtype=PRECISIONS[precision or best_precision(device)])
    try:
        lexicon, language = (
            Lexicon.load(folder / LEXICON_FILE, device),
            LanguageModel.load(folder / LANGUAGE_FILE, device),
        )
        if lexicon.vocabulary != language.vocabulary:
            raise ValueError(f"{LEXICON_FILE} and {LANGUAGE_FILE} do not have the same words: build the lexicon again")
        options = BeamOptions.load(folder / SEARCH_FILE)
        letters = LetterToSound.load(folder / LETTERS_FILE)
        units = model.units["phones"]
        rescorer = load_rescorer(folder, language, device)
        beam = BeamSearch(lexicon, language, units, slots, options, device=device, letters=letters, rescorer=rescorer)
        calibration = Calibration.load(folder / CALIBRATION_FILE) if (folder / CALIBRATION_FILE).exists() else None
        punctuation = PunctuationModel.load(folder) if (folder / PUNCTUATION_FILE).exists() else None
        turns = TurnModel.load(folder).over if (folder / TURNS_FILE).exists() else None
    except (ModelFileError, OSError, TypeError, ValueError) as error:
        raise BundleError(str(error)) from error
    searches: dict[str, Search] = {"lexicon": beam, "greedy": GreedySearch(model.units["characters"], slots)}
    return Recogniser(
        model, searches, slots=slots, calibration=calibration, punctuation=punctuation, turns=turns,
        idle_limit_s=idle_limit_s,
    )  # fmt: skip


def load_rescorer(folder: Path, language: LanguageModel, device: torch.device | str = "cpu") -> Rescorer | None:
    """What compares the alternatives with the neural language model of a bundle; None if it has none."""
    path = folder / NEURAL_FILE
    return Rescorer(NeuralModel.load(path, device), language) if path.exists() else None


def best_precision(device: torch.device | str) -> str:
    """bfloat16 on processors that support it, where it is faster and as good; otherwise float32."""
    if torch.device(device).type != "cpu":
        return "float32"
    able = torch.cpu.get_capabilities()
    return "bfloat16" if able.get("avx512_bf16") or able.get("amx_bf16") else "float32"
