"""Finds the pronunciations that a model hears in prepared speech, with rough times: those of the likeliest path.

This takes some minutes for 20 hours of speech; PocketSphinx takes 40. The result is meant for training a model further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.text.calibration import CALIBRATION_FILE, LEXICON, Calibration
from workshop.acoustic import units
from workshop.acoustic.batches import TAIL_SAMPLES, batches, padded
from workshop.data.alignment import Alignment, heard_path, write_resumed
from workshop.data.corpus import Corpus, Utterance
from workshop.language.pronunciation import Phones, Pronunciations
from workshop.processes import Workers

DELAY_MS = 190
"""How much later than its beginning a phone is heard, for a bundle that was not calibrated: the median of several."""

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

    model: AcousticNetwork
    pronunciations: Pronunciations
    delay_ms: int

    @classmethod
    def load(cls, bundle: Path) -> ModelAligner:
        """Load the model of a bundle, on one thread. Words outside the dictionary are pronounced as in the service."""
        torch.set_num_threads(1)
        model = AcousticNetwork.load(bundle)
        return cls(model, Pronunciations.load(), delay_of(bundle, max(model.step_ms)))

    @torch.inference_mode()
    def align(self, corpus: Corpus, utterances: list[Utterance]) -> list[Alignment]:
        """Align utterances of similar length."""
        longest = max(utterance.samples for utterance in utterances)
        samples = torch.stack(
            [padded(corpus, utterance, longest, self.model.frame_samples) for utterance in utterances]
        )
        lengths = [(utterance.samples + TAIL_SAMPLES) // self.model.frame_samples for utterance in utterances]
        description = self.model.description
        # At its longest step, the model sees most.
        together, left = description.frames_of(max(description.step_ms)), description.encoder.left_frames
        emissions = self.model(samples, torch.tensor(lengths), together, left)["phones"]
        words = [self._variants(utterance) for utterance in utterances]
        graphs = [PronunciationGraph.of(of_utterance) for of_utterance in words]
        paths = best_paths(emissions, lengths, graphs)
        times = FrameTimes(description.encoder.frame_ms, self.delay_ms)
        return [heard(*each, times) for each in zip(utterances, words, graphs, paths, emissions, strict=True)]

    def _variants(self, utterance: Utterance) -> list[list[Phones]]:
        return [self.pronunciations.variants(word) or [()] for word in utterance.text.split()]


def delay_of(bundle: Path, step_ms: int) -> int:
    """Return how much later than its beginning a phone is heard in such steps: what was found for words."""
    path = bundle / CALIBRATION_FILE
    calibration = Calibration.load(path) if path.is_file() else Calibration()
    return -round(calibration.start_ms(step_ms)) if calibration.fits.get(LEXICON) else DELAY_MS


@dataclass(frozen=True)
class FrameTimes:
    """When a phone begins that a model hears in a frame."""

    frame_ms: float
    delay_ms: int

    def begin_ms(self, frame: int) -> int:
        """Return the beginning of a phone that is first heard in this frame."""
        return max(round(frame * self.frame_ms) - self.delay_ms, 0)


def heard(
    utterance: Utterance,
    words: list[list[Phones]],
    graph: PronunciationGraph,
    path: list[int] | None,
    emissions: Tensor,
    times: FrameTimes,
) -> Alignment:
    """Return a path as an alignment. If there is no path: the first pronunciations, without times."""
    texts = utterance.text.split()
    if path is None:
        unplaced = [(phone, 0, 0, word) for word, variants in enumerate(words) for phone in variants[0]]
        return Alignment(utterance.name, False, 0.0, [(text, 0, 0) for text in texts], unplaced)
    starts: dict[int, int] = {}
    for frame, node in enumerate(path):
        if node != RESTING:
            starts.setdefault(node, times.begin_ms(frame))
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


# A graph of all ways to say a text: a branch for each pronunciation of a word, and a boundary after each word.

START = 0
"""The node before the first unit. It stands for no unit."""


@dataclass(frozen=True)
class Place:
    """The place of a node in the text: the numbers of the word, of its pronunciation, and of the phone in that."""

    word: int
    variant: int
    phone: int


@dataclass
class PronunciationGraph:
    """Nodes in such an order that each comes after all nodes that lead to it. The text ends at the last node."""

    labels: list[int] = field(default_factory=lambda: [units.BLANK])
    before: list[list[int]] = field(default_factory=lambda: [[]])
    places: list[Place | None] = field(default_factory=lambda: [None])

    @classmethod
    def of(cls, words: Sequence[Sequence[Phones]]) -> PronunciationGraph:
        """Return the graph of these words. Each has one or more pronunciations."""
        graph, ends = cls(), [START]
        for word, variants in enumerate(words):
            after_word = []
            for variant, phones in enumerate(variants):
                last = ends
                for number, phone in enumerate(phones):
                    last = [graph._add(units.PHONE_NUMBER[phone], last, Place(word, variant, number))]
                after_word += last
            ends = [graph._add(units.PHONE_NUMBER[units.BOUNDARY], sorted(set(after_word)), None)]
        return graph

    def __len__(self) -> int:
        return len(self.labels)

    def _add(self, label: int, before: list[int], place: Place | None) -> int:
        self.labels.append(label)
        self.before.append(list(before))
        self.places.append(place)
        return len(self.labels) - 1


# The likeliest CTC path through a graph of pronunciations, for a batch of utterances at once.

NEVER = -1e30
RESTING = -1
"""The number in a path for a frame in which no node is said."""


def best_paths(
    emissions: Tensor, lengths: Sequence[int], graphs: Sequence[PronunciationGraph]
) -> list[list[int] | None]:
    """Return the path of each row: a node or RESTING for every frame. None if the text does not fit into the frames.

    `emissions` are log-probabilities [rows, frames, units] on any device.
    """
    tables = _Tables(graphs, emissions.device)
    rows, frames, _ = emissions.shape
    of_nodes = emissions.gather(2, tables.labels.unsqueeze(1).expand(-1, frames, -1))
    of_blank = emissions[..., units.BLANK].unsqueeze(-1)
    said = emissions.new_full((rows, tables.nodes), NEVER)
    said[:, START] = 0.0  # every path begins at this node, and never returns to it
    rest = torch.full_like(said, NEVER)
    entered_from = torch.empty(frames, rows, tables.nodes, dtype=torch.int16, device=emissions.device)
    rested_before = torch.empty(frames, rows, tables.nodes, dtype=torch.bool, device=emissions.device)
    final = emissions.new_full((rows, 2), NEVER)
    ends = torch.tensor(lengths, device=emissions.device) - 1
    for time in range(frames):
        entering, origin = tables.entering(said, rest).max(-1)
        # The numbers below 2 * width stand for the nodes before; 2 * width means that the path stays in its node.
        entered_from[time] = torch.where(said >= entering, 2 * tables.width, origin)
        rested_before[time] = rest >= said
        rest, said = torch.maximum(rest, said) + of_blank[:, time], torch.maximum(said, entering) + of_nodes[:, time]
        said[:, START] = NEVER
        scores = torch.stack((said, rest), -1)[tables.rows, tables.last]
        final = torch.where((ends == time).unsqueeze(1), scores, final)
    return tables.traced(final, ends, entered_from, rested_before)


class _Tables:
    """The graphs of a batch as tensors. Smaller graphs are padded to the same number of nodes and of nodes before."""

    def __init__(self, graphs: Sequence[PronunciationGraph], device: torch.device) -> None:
        self.nodes = max(len(graph) for graph in graphs)
        self.width = max(len(before) for graph in graphs for before in graph.before)
        labels = torch.zeros(len(graphs), self.nodes, dtype=torch.int64)
        before = torch.zeros(len(graphs), self.nodes, self.width, dtype=torch.int64)
        there = torch.zeros(len(graphs), self.nodes, self.width, dtype=torch.bool)
        for row, graph in enumerate(graphs):
            labels[row, : len(graph)] = torch.tensor(graph.labels)
            for node, nodes_before in enumerate(graph.before):
                before[row, node, : len(nodes_before)] = torch.tensor(nodes_before, dtype=torch.int64)
                there[row, node, : len(nodes_before)] = True
        same = labels.gather(1, before.flatten(1)).view_as(before) == labels.unsqueeze(-1)
        self.labels = labels.to(device)
        self.before = before.flatten(1).to(device)
        # The first half is for entering from a rest after a node before, the second half for entering from that node.
        forbidden = torch.cat((~there, ~there | same), -1)
        self.penalty = (forbidden * NEVER).to(device)
        self.rows = torch.arange(len(graphs), device=device)
        self.last = torch.tensor([len(graph) - 1 for graph in graphs], device=device)

    def entering(self, said: Tensor, rest: Tensor) -> Tensor:
        """Return the scores of all ways to enter each node: [rows, nodes, 2 * nodes before]."""
        shape = (len(said), self.nodes, self.width)
        both = torch.cat((rest.gather(1, self.before).view(shape), said.gather(1, self.before).view(shape)), -1)
        return both + self.penalty

    def traced(
        self, final: Tensor, ends: Tensor, entered_from: Tensor, rested_before: Tensor
    ) -> list[list[int] | None]:
        """Follow the paths back from their ends."""
        node, resting = self.last.clone(), final[:, 1] > final[:, 0]
        before = self.before.view(len(node), self.nodes, self.width)
        path = torch.full((len(entered_from), len(node)), RESTING, device=node.device)
        for time in range(len(entered_from) - 1, -1, -1):
            inside = ends >= time
            path[time] = torch.where(inside & ~resting, node, RESTING)
            origin = entered_from[time, self.rows, node].long()
            stays = resting | (origin == 2 * self.width)
            earlier = before[self.rows, node, origin % self.width]
            was_resting = torch.where(resting, rested_before[time, self.rows, node], origin < self.width)
            was_resting &= resting | ~stays
            node = torch.where(inside & ~stays, earlier, node)
            resting = torch.where(inside, was_resting, resting)
        rows = zip(path.T.tolist(), ends.tolist(), final.amax(1).tolist(), strict=True)
        return [row[: end + 1] if score > NEVER / 2 else None for row, end, score in rows]
