"""Searches on cached emissions: computes these once, counts word errors by corpus and half, and tunes weights."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from streamer.base.limits import STEP_MS, WHOLE_MS
from streamer.commands.accuracy.manifest import HALVES, half
from streamer.engine.acoustics.bundle_files import WEIGHTS_FILE, BundleError
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.model_file import ModelFileError
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.rescoring import Rescorer
from streamer.engine.search.search import BeamOptions, HypothesisWord
from workshop.acoustic import units
from workshop.acoustic.batches import TAIL_SAMPLES, batches, padded
from workshop.data.corpus import Corpus, CorpusError, Utterance, replacing
from workshop.model_steps import frames_together, own_step

STEP_FRAMES = 8
"""How many frames a search reads at a time: about a step of the usual length."""
# The value of frames that are added to fill a step.
SURE, NEVER = 0.0, -30.0


@dataclass(frozen=True)
class Trial:
    """The result of a search on some utterances: the words of each, with their frames if the search knows them."""

    hypotheses: list[tuple[HypothesisWord, ...]]

    @property
    def words(self) -> list[list[str]]:
        """The words as texts."""
        return [[word.text for word in words] for words in self.hypotheses]


def whole_steps(emissions: Tensor) -> Tensor:
    """Fill the emissions up with blanks to whole steps."""
    filling = torch.full((-len(emissions) % STEP_FRAMES, emissions.shape[1]), NEVER)
    filling[:, units.BLANK] = SURE
    return torch.cat((emissions, filling))


def run_beam(
    spoken: Sequence[EmittedUtterance],
    lexicon: Lexicon,
    language: LanguageModel,
    options: BeamOptions,
    streams: int,
    rescorer: Rescorer | None = None,
) -> Trial:
    """Run our search with this many streams at a time. When an utterance ends, the next one gets its place."""
    search = BeamSearch(lexicon, language, units.PHONE_UNITS, streams, options, rescorer=rescorer)
    hypotheses: dict[int, tuple[HypothesisWord, ...]] = {}
    waiting = list(enumerate(spoken))[::-1]
    running: dict[int, tuple[int, list[Tensor]]] = {}
    while waiting or running:
        for slot in range(streams):
            if slot not in running and waiting:
                number, one = waiting.pop()
                search.reset([slot])
                running[slot] = number, list(torch.split(whole_steps(one.emissions), STEP_FRAMES))[::-1]
        search.advance(list(running), {HEAD: torch.stack([steps.pop() for _, steps in running.values()])})
        for slot, (number, steps) in list(running.items()):
            if not steps:
                hypotheses[number] = search.finish([slot])[0].words
                del running[slot]
    return Trial([hypotheses[number] for number in range(len(spoken))])


def run_greedy(spoken: Sequence[EmittedUtterance]) -> Trial:
    """Run the greedy search on emissions of the characters' head."""
    search = GreedySearch(units.CHARACTERS, 1, CHARACTERS_HEAD)
    hypotheses = []
    for one in spoken:
        search.reset([0])
        hypotheses.append(search.advance([0], {CHARACTERS_HEAD: one.emissions.unsqueeze(0)})[0].words)
    return Trial(hypotheses)


# Word errors of searches by corpus, and the halves of a set for fitting and evaluation.


def halves(spoken: Sequence[EmittedUtterance]) -> tuple[list[EmittedUtterance], list[EmittedUtterance]]:
    """Return the half for fitting and the half for evaluation."""
    first, second = ([one for one in spoken if half(one.utterance.name) == name] for name in HALVES)
    return first, second


def error_rates(spoken: Sequence[EmittedUtterance], hypotheses: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the word error rates in percent, by corpus and of everything ("all")."""
    wrong: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for one, words in zip(spoken, hypotheses, strict=True):
        for name in (one.utterance.corpus, "all"):
            wrong[name] += units.errors(one.words, words)
            total[name] += len(one.words)
    return {name: 100 * wrong[name] / max(total[name], 1) for name in sorted(total)}


def mean_over_corpora(rates: dict[str, float]) -> float:
    """Return the mean over the corpora, regardless of their sizes. Tuning minimises it."""
    corpora = [rate for name, rate in rates.items() if name != "all"]
    return sum(corpora) / len(corpora)


# The emissions of a bundle for a prepared set: the input of searches. They are computed once and kept in files.

HEAD = "phones"
CHARACTERS_HEAD = "characters"


@dataclass(frozen=True)
class EmittedUtterance:
    """One utterance: the log-probabilities of its frames [frames, units], and its text."""

    emissions: Tensor
    utterance: Utterance

    @property
    def name(self) -> str:
        """Its name."""
        return self.utterance.name

    @property
    def words(self) -> list[str]:
        """The words of the reference."""
        return self.utterance.text.split()


def read_emissions(
    bundle: Path, work: Path, name: str, cache: Path, step_ms: int = STEP_MS, head: str = HEAD
) -> list[EmittedUtterance]:
    """Return the emissions of a prepared set, as in streaming; from the cache if these weights were used before.

    `step_ms`: the length of a step, or `WHOLE_MS` for a second pass. CorpusError if the model has no such step.
    """
    corpus = Corpus(work, name)
    model = AcousticNetwork.load(bundle)
    if step_ms != WHOLE_MS:
        step_ms = own_step(step_ms, model.step_ms)
    digest = hashlib.sha256((bundle / WEIGHTS_FILE).read_bytes()).hexdigest()[:12]
    paths = {
        HEAD: cache / f"{name}-{step_ms}-{digest}.pt",
        CHARACTERS_HEAD: cache / f"{name}-{step_ms}-{digest}-{CHARACTERS_HEAD}.pt",
    }
    if not paths[head].is_file():
        for computed, emissions in _compute(model, corpus, step_ms).items():
            with replacing(paths[computed], "wb") as file:
                torch.save(emissions, file)
    stored: dict[str, Tensor] = torch.load(paths[head], weights_only=True)
    return [EmittedUtterance(stored[utterance.name], utterance) for utterance in corpus.utterances]


@torch.inference_mode()
def _compute(model: AcousticNetwork, corpus: Corpus, step_ms: int) -> dict[str, dict[str, Tensor]]:
    """Compute the emissions of all heads at once, because the encoder takes most of the time."""
    by_head: dict[str, dict[str, Tensor]] = {HEAD: {}, CHARACTERS_HEAD: {}}
    together = frames_together(model.description, step_ms)
    for utterances in batches(corpus):
        samples = torch.stack(
            [padded(corpus, utterance, utterances[-1].samples, model.frame_samples) for utterance in utterances]
        )
        lengths = [(utterance.samples + TAIL_SAMPLES) // model.frame_samples for utterance in utterances]
        left = model.description.encoder.left_frames
        emissions = model(samples, torch.tensor(lengths), together, left)
        for head, of_head in by_head.items():
            for row, (utterance, length) in enumerate(zip(utterances, lengths, strict=True)):
                of_head[utterance.name] = emissions[head][row, :length].clone()
    return by_head


# The command line of scripts that search cached emissions: their common arguments and their error messages.


def search_arguments(description: str | None, *, prepared: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the arguments that all of these scripts have. `prepared`: prepared speech must be given."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=prepared, help="folder of prepared speech")
    parser.add_argument("--cache", type=Path, required=prepared, help="folder in which emissions are kept")
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="folder of the model")
    parser.add_argument("--set", default="dev", help="the prepared set")
    return parser


def run_script(work: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> int:
    """Do the work on one thread, because CPU time is measured for one thread. Returns the exit status."""
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        work(options)
    except (BundleError, CorpusError, ModelFileError, OSError, ValueError) as error:
        print(f"{Path(parser.prog).stem}: {error}", file=sys.stderr)
        return 1
    return 0


# Tunes the weights of the search one after another, in steps that become smaller.

# The weights that are tuned, each with its first and its smallest step.
TUNED = {
    "language_weight": (0.4, 0.1),
    "word_bonus": (1.0, 0.25),
    "blank_penalty": (0.8, 0.2),
    "end_weight": (0.4, 0.2),
}
# Those of the neural language model.
RESCORING = {
    "neural_share": (0.2, 0.1),
    "neural_weight": (0.4, 0.1),
    "neural_end_weight": (0.8, 0.2),
}


def tune(
    judge: Callable[[BeamOptions], float],
    start: BeamOptions,
    tell: Callable[[str], None],
    tuned: Mapping[str, tuple[float, float]] = TUNED,
) -> BeamOptions:
    """Return the options with the fewest errors. Tries each weight up and down, and reports every improvement."""
    best, fewest = start, judge(start)
    steps = {name: first for name, (first, _) in tuned.items()}
    while steps:
        better = False
        for name, step in steps.items():
            for move in (step, -step):
                trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                errors = judge(trial)
                while errors < fewest:
                    best, fewest, better = trial, errors, True
                    tell(f"{errors:6.2f}  {described(best, tuned)}")
                    trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                    errors = judge(trial)
        if not better:
            steps = {name: step / 2 for name, step in steps.items() if step > tuned[name][1]}
    return best


def described(options: BeamOptions, tuned: Mapping[str, tuple[float, float]] = TUNED) -> str:
    """Return a text with the tuned weights."""
    return ", ".join(f"{name} {getattr(options, name):g}" for name in tuned)
