"""Runs searches on cached emissions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

STEP_FRAMES = 8
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
