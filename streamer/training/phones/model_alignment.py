"""Finds the pronunciations that a model hears in prepared speech, with rough times: those of the likeliest path.

This takes some minutes for 20 hours of speech; PocketSphinx takes 40. The result is meant for training a model further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.models.acoustic_model import AcousticModel
from streamer.training.acoustic.evaluation_batches import FRAME_MS, TAIL_SAMPLES, batches, padded
from streamer.training.data.alignment import Alignment, heard_path, write_resumed
from streamer.training.data.corpus import Corpus, Utterance
from streamer.training.language.pronunciation import Phones, Pronunciations
from streamer.training.phones.pronunciation_graph import PronunciationGraph
from streamer.training.phones.viterbi import RESTING, best_paths
from streamer.training.workers import Workers

STEP_FRAMES = 16
"""The longest step of the service, at which the model has the most context."""

DELAY_MS = 190
"""How much later than its beginning a phone is heard: the median by PocketSphinx, as in calibration.json."""

LONGEST_MS = 200
SHORTEST_MS = 40


def align(work: Path, name: str, bundle: Path, processes: int, tell: Callable[[str], None]) -> None:
    """Align a prepared set with the model of a bundle. Aligns only what was not aligned before."""
    corpus, target = Corpus(work, name), heard_path(work, name)

    def find(done: set[str]) -> Iterator[Alignment]:
        unaligned = ([utterance for utterance in batch if utterance.name not in done] for batch in batches(corpus))
        waiting = [batch for batch in unaligned if batch]
        total, aligned = sum(map(len, waiting)), 0
        tell(f"{name}: {len(done)} heard before, {total} to do")
        number = 0
        with Workers(processes, _open, work, name, bundle) as workers:
            for batch in workers.map(_align, waiting):
                for alignment in batch:
                    aligned += alignment.aligned
                    number += 1
                    yield alignment
                    if number % 1000 == 0:
                        tell(f"{name}: {number} of {total}, {number - aligned} do not fit")
        tell(f"{name}: {aligned} of {total} heard")

    write_resumed(target, find)


@dataclass
class ModelAligner:
    """Finds the spoken pronunciations with a model."""

    model: AcousticModel
    pronunciations: Pronunciations

    @classmethod
    def load(cls, bundle: Path) -> ModelAligner:
        """Load the model of a bundle, on one thread. Words outside the dictionary are pronounced as in the service."""
        torch.set_num_threads(1)
        return cls(AcousticModel.load(bundle), Pronunciations.load())

    @torch.inference_mode()
    def align(self, corpus: Corpus, utterances: list[Utterance]) -> list[Alignment]:
        """Align utterances of similar length."""
        longest = max(utterance.samples for utterance in utterances)
        samples = torch.stack([padded(corpus, utterance, longest) for utterance in utterances])
        lengths = [(utterance.samples + TAIL_SAMPLES) // self.model.frame_samples for utterance in utterances]
        left = self.model.description.encoder.left_frames
        emissions = self.model(samples, torch.tensor(lengths), STEP_FRAMES, left)["phones"]
        words = [self._variants(utterance) for utterance in utterances]
        graphs = [PronunciationGraph.of(of_utterance) for of_utterance in words]
        paths = best_paths(emissions, lengths, graphs)
        return [heard(*each) for each in zip(utterances, words, graphs, paths, emissions, strict=True)]

    def _variants(self, utterance: Utterance) -> list[list[Phones]]:
        return [self.pronunciations.variants(word) or [()] for word in utterance.text.split()]


def heard(
    utterance: Utterance,
    words: list[list[Phones]],
    graph: PronunciationGraph,
    path: list[int] | None,
    emissions: Tensor,
) -> Alignment:
    """Return a path as an alignment. If there is no path: the first pronunciations, without times."""
    texts = utterance.text.split()
    if path is None:
        unplaced = [(phone, 0, 0, word) for word, variants in enumerate(words) for phone in variants[0]]
        return Alignment(utterance.name, False, 0.0, [(text, 0, 0) for text in texts], unplaced)
    starts: dict[int, int] = {}
    for frame, node in enumerate(path):
        if node != RESTING:
            starts.setdefault(node, max(frame * FRAME_MS - DELAY_MS, 0))
    phones = []
    for node, start in starts.items():
        place = graph.places[node]
        if place is not None:
            until = next((later for other, later in starts.items() if other > node), start + LONGEST_MS)
            length = min(max(until - start, SHORTEST_MS), LONGEST_MS)
            phones.append((words[place.word][place.variant][place.phone], start, length, place.word))
    units = torch.tensor([0 if node == RESTING else graph.labels[node] for node in path])
    score = float(emissions[torch.arange(len(path)), units].sum()) / max(len(phones), 1)
    return Alignment(utterance.name, True, round(score, 3), _spans(texts, phones), phones)


def _spans(texts: list[str], phones: list[tuple[str, int, int, int]]) -> list[tuple[str, int, int]]:
    """Return the words with their times. A word without phones has zeros."""
    spans = []
    for number, text in enumerate(texts):
        own = [(start, start + length) for _, start, length, word in phones if word == number]
        spans.append((text, own[0][0], own[-1][1] - own[0][0]) if own else (text, 0, 0))
    return spans


_worker: tuple[Corpus, ModelAligner]


def _open(work: Path, name: str, bundle: Path) -> None:
    global _worker
    _worker = Corpus(work, name), ModelAligner.load(bundle)


def _align(utterances: list[Utterance]) -> list[Alignment]:
    corpus, aligner = _worker
    return aligner.align(corpus, utterances)
