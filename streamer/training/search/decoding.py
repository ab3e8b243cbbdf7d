"""Searches on kept emissions: what they find, what it costs, and how their weights are tuned on half of a set."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import HypothesisWord
from streamer.evaluate.manifest import HALVES, half
from streamer.training.acoustic import units
from streamer.training.search.emissions import CHARACTERS_HEAD, HEAD, Spoken

STEP_FRAMES = 8
# What is tuned, the first step of each, and the least.
TUNED = {
    "language_weight": (0.4, 0.1),
    "word_bonus": (1.0, 0.25),
    "blank_penalty": (0.8, 0.2),
    "end_weight": (0.4, 0.2),
}
# Filling to a whole step.
SURE, NEVER = 0.0, -30.0


@dataclass(frozen=True)
class Trial:
    """What a search made of some utterances."""

    words: list[list[str]]
    frames: int
    cpu_seconds: float
    # The words with their frames, if the search tells them.
    placed: list[tuple[HypothesisWord, ...]] = field(default_factory=list)

    @property
    def frame_us(self) -> float:
        """CPU time of one frame of one stream in microseconds."""
        return 1e6 * self.cpu_seconds / self.frames


def halves(spoken: Sequence[Spoken]) -> tuple[list[Spoken], list[Spoken]]:
    """The half that everything is fitted on, and the one that it is judged on."""
    first, second = ([one for one in spoken if half(one.utterance.name) == name] for name in HALVES)
    return first, second


def error_rates(spoken: Sequence[Spoken], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """Word errors in percent by corpus, and of everything ("all")."""
    wrong: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for one, words in zip(spoken, found, strict=True):
        for name in (one.utterance.corpus, "all"):
            wrong[name] += units.errors(one.words, words)
            total[name] += len(one.words)
    return {name: 100 * wrong[name] / max(total[name], 1) for name in sorted(total)}


def mean_over_corpora(rates: dict[str, float]) -> float:
    """The mean of the corpora, however large each is: what tuning makes small."""
    corpora = [rate for name, rate in rates.items() if name != "all"]
    return sum(corpora) / len(corpora)


def tune(judge: Callable[[BeamOptions], float], start: BeamOptions) -> BeamOptions:
    """Options of the fewest errors: one weight after the other up and down, by steps that become smaller."""
    best, fewest = start, judge(start)
    steps = {name: first for name, (first, _) in TUNED.items()}
    while steps:
        better = False
        for name, step in steps.items():
            for move in (step, -step):
                trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                errors = judge(trial)
                while errors < fewest:
                    best, fewest, better = trial, errors, True
                    print(f"{errors:6.2f}  {described(best)}", flush=True)
                    trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                    errors = judge(trial)
        if not better:
            steps = {name: step / 2 for name, step in steps.items() if step > TUNED[name][1]}
    return best


def described(options: BeamOptions) -> str:
    """The tuned weights in words."""
    return ", ".join(f"{name} {getattr(options, name):g}" for name in TUNED)


def whole_steps(emissions: Tensor) -> Tensor:
    """Filled up with blanks to whole steps."""
    filling = torch.full((-len(emissions) % STEP_FRAMES, emissions.shape[1]), NEVER)
    filling[:, units.BLANK] = SURE
    return torch.cat((emissions, filling))


def run_beam(
    spoken: Sequence[Spoken], lexicon: Lexicon, language: LanguageModel, options: BeamOptions, streams: int
) -> Trial:
    """Our search, so many streams at a time; where one ends the next one begins."""
    search = BeamSearch(lexicon, language, units.PHONE_UNITS, streams, options)
    found: dict[int, tuple[HypothesisWord, ...]] = {}
    waiting = list(enumerate(spoken))[::-1]
    running: dict[int, tuple[int, list[Tensor]]] = {}
    frames, started = 0, time.process_time()
    while waiting or running:
        for slot in range(streams):
            if slot not in running and waiting:
                number, one = waiting.pop()
                search.reset([slot])
                running[slot] = number, list(torch.split(whole_steps(one.emissions), STEP_FRAMES))[::-1]
        search.advance(list(running), {HEAD: torch.stack([steps.pop() for _, steps in running.values()])})
        frames += len(running) * STEP_FRAMES
        for slot, (number, steps) in list(running.items()):
            if not steps:
                found[number] = search.finish([slot])[0].words
                del running[slot]
    placed = [found[number] for number in range(len(spoken))]
    texts = [[word.text for word in words] for words in placed]
    return Trial(texts, frames, time.process_time() - started, placed)


def run_greedy(spoken: Sequence[Spoken]) -> Trial:
    """The greedy search on emissions of the characters' head."""
    search = GreedySearch(units.CHARACTERS, 1, CHARACTERS_HEAD)
    placed, frames, started = [], 0, time.process_time()
    for one in spoken:
        search.reset([0])
        placed.append(search.advance([0], {CHARACTERS_HEAD: one.emissions.unsqueeze(0)})[0].words)
        frames += len(one.emissions)
    return Trial([[word.text for word in words] for words in placed], frames, time.process_time() - started, placed)
