"""Runs searches on cached emissions, and measures their CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.rescoring import Rescorer
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import HypothesisWord
from streamer.training.acoustic import units
from streamer.training.search.emission_cache import CHARACTERS_HEAD, HEAD, EmittedUtterance

Result = TypeVar("Result")

STEP_FRAMES = 8
# The value of frames that are added to fill a step.
SURE, NEVER = 0.0, -30.0


@dataclass(frozen=True)
class Trial:
    """The result of a search on some utterances."""

    words: list[list[str]]
    frames: int
    cpu_seconds: float
    hypotheses: list[tuple[HypothesisWord, ...]] = field(
        default_factory=list
    )  # the words with their frames, if the search knows them

    @property
    def frame_us(self) -> float:
        """The CPU time for one frame of one stream, in microseconds."""
        return 1e6 * self.cpu_seconds / self.frames


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
    hypotheses, frames, cpu_seconds = run_search(search, spoken, streams, lambda slot: search.finish([slot])[0].words)
    return Trial([[word.text for word in words] for words in hypotheses], frames, cpu_seconds, hypotheses)


def run_search(
    search: BeamSearch, spoken: Sequence[EmittedUtterance], streams: int, result: Callable[[int], Result]
) -> tuple[list[Result], int, float]:
    """Search all utterances. Returns the `result` of each slot at its end, the number of frames and the CPU time."""
    found: dict[int, Result] = {}
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
                found[number] = result(slot)
                del running[slot]
    return [found[number] for number in range(len(spoken))], frames, time.process_time() - started


def run_greedy(spoken: Sequence[EmittedUtterance]) -> Trial:
    """Run the greedy search on emissions of the characters' head."""
    search = GreedySearch(units.CHARACTERS, 1, CHARACTERS_HEAD)
    hypotheses, frames, started = [], 0, time.process_time()
    for one in spoken:
        search.reset([0])
        hypotheses.append(search.advance([0], {CHARACTERS_HEAD: one.emissions.unsqueeze(0)})[0].words)
        frames += len(one.emissions)
    return Trial(
        [[word.text for word in words] for words in hypotheses], frames, time.process_time() - started, hypotheses
    )
