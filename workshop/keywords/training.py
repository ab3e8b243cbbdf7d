"""Trains the network of a keyword spotter, on places in aligned speech that have the phones of a keyword, or nearly."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streamer.base.limits import STEP_MS
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.heads.keywords import KERNEL, LOOSEST, STRIDE, WINDOW, Floats, KeywordNetwork, KeywordPaths
from workshop.acoustic.batches import TAIL_SAMPLES, padded
from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError, Utterance
from workshop.model_steps import frames_together

PROJECTED, HIDDEN = 24, 64
RATE, WARM_UP = 2e-3, 50
ROWS = 128  # of a batch
NOISE = 0.3  # added to frames
DECAY = 0.3
SMOOTHING = 0.02  # labels are not quite 0 or 1; otherwise all thresholds would be next to 1
# Before the training, the score of the phones alone decides.
FIRST_WEIGHT, FIRST_BIAS = 0.5, 2.0


def untrained(
    words: Sequence[str],
    pronunciations: Sequence[tuple[int, tuple[int, ...]]],
    phones: nn.Linear,
    material: Sequence[Spoken],
) -> KeywordNetwork:
    """Return a network that knows only the phones. `phones` is the layer of the acoustic model that finds them."""
    weights = {
        "silence": np.median(np.stack([each.frames[0] for each in material]), axis=0),
        "phones": _array(phones.weight).T,
        "phones_bias": _array(phones.bias),
    }
    return KeywordNetwork(
        tuple(words),
        tuple(pronunciations),
        np.full(len(words), 0.5, np.float32),
        {name: value.astype(np.float32) for name, value in weights.items()},
        material[0].frame_samples,
    )


class _Trained(nn.Module):
    """The layers that are trained; `KeywordNetwork` computes the same."""

    def __init__(self, network: KeywordNetwork) -> None:
        super().__init__()
        words = len(network.words)
        self.phones: Tensor = torch.from_numpy(network.weights["phones"])
        self.phones_bias: Tensor = torch.from_numpy(network.weights["phones_bias"])
        self.projection = nn.Linear(network.width, PROJECTED)
        self.first = nn.Conv1d(len(self.phones_bias) + PROJECTED, HIDDEN, KERNEL, STRIDE)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, KERNEL, STRIDE)
        places = ((WINDOW - KERNEL) // STRIDE + 1 - KERNEL) // STRIDE + 1
        self.output = nn.Linear(places * HIDDEN, words)
        self.score = nn.Parameter(torch.full((words,), FIRST_WEIGHT))
        nn.init.constant_(self.output.bias, FIRST_BIAS)

    def forward(self, frames: Tensor, words: Tensor, scores: Tensor) -> Tensor:
        """Return the logit of one word for each window."""
        shares = functional.softmax(frames @ self.phones + self.phones_bias, -1)
        if self.training:
            frames = frames + NOISE * torch.randn_like(frames)
            shares = functional.dropout(shares, 0.1)
        inputs = torch.cat([shares, self.projection(frames)], -1).transpose(1, 2)
        hidden = functional.relu(self.second(functional.relu(self.first(inputs)))).transpose(1, 2).flatten(1)
        logits = self.output(functional.dropout(hidden, 0.3, self.training))
        chosen: Tensor = logits.gather(1, words[:, None])[:, 0] + self.score[words] * scores
        return chosen

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights as `KeywordNetwork` uses them."""
        layers: dict[str, nn.Linear | nn.Conv1d] = {
            "projection": self.projection,
            "first": self.first,
            "second": self.second,
            "output": self.output,
        }
        matrices = {name: _array(layer.weight).reshape(len(layer.weight), -1).T for name, layer in layers.items()}
        return (
            matrices
            | {f"{name}_bias": _array(layer.bias) for name, layer in layers.items()}
            | {"score": _array(self.score)}
        )


def train(
    network: KeywordNetwork, material: Sequence[Spoken], steps: int, seed: int, tell: Callable[[str], None]
) -> KeywordNetwork:
    """Train for this many steps. `with_thresholds` must choose the thresholds afterwards."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    places = candidates(network, material)
    tell(f"{len(places.words)} places that sound like keywords; {int(places.right.sum())} of them are")
    trained = _Trained(network)
    optimiser = torch.optim.AdamW(trained.parameters(), lr=RATE, weight_decay=DECAY)
    chances = _balanced(places)
    recent = 0.0
    for step in range(1, steps + 1 if len(chances) else 0):
        rows = rng.choice(len(chances), ROWS, p=chances)
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, step / WARM_UP) * (1 - step / (steps + 1))
        logits = trained(
            torch.from_numpy(places.windows[rows].astype(np.float32)),
            torch.from_numpy(places.words[rows]),
            torch.from_numpy(places.scores[rows]),
        )
        right = torch.from_numpy(places.right[rows].astype(np.float32))
        loss = functional.binary_cross_entropy_with_logits(logits, right * (1 - 2 * SMOOTHING) + SMOOTHING)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        recent += (loss.item() - recent) / min(step, 100)
        if step % 100 == 0:
            tell(f"step {step} of {steps}: loss {recent:.4f}")
    return replace(network, weights={**network.weights, **trained.weights()})


def _balanced(places: Candidates) -> NDArray[np.float64]:
    """Return the chance of each candidate. Those of rare words, right or wrong, are drawn more often than others."""
    if not len(places.words):
        return np.zeros(0)
    kinds = 2 * places.words + places.right
    drawn = 1 / np.sqrt(np.bincount(kinds)[kinds])
    return np.asarray(drawn / drawn.sum())


def _array(tensor: Tensor | None) -> NDArray[np.float32]:
    assert tensor is not None
    return tensor.detach().float().cpu().numpy()


# Finds the places in speech that have the phones of a keyword. The network of a spotter judges them.

# A keyword ends where the next boundary is heard. It is right if that is so near before or after its aligned end.
EARLY_MS, LATE_MS = 400, 800
APART_MS = 400  # between two places of the same word
AT_ONCE = 32  # utterances
KEPT = 3  # frames of each place that training uses: those with the highest scores


@dataclass(frozen=True)
class Candidates:
    """Frames in which a keyword may end."""

    windows: NDArray[np.float16]  # [candidates, WINDOW, width]
    words: NDArray[np.int64]
    scores: Floats  # the scores of the phones
    right: NDArray[np.bool_]  # whether the word was said there
    number: NDArray[np.int64]  # the number of the utterance
    frame: NDArray[np.int64]  # the last frame


def candidates(network: KeywordNetwork, material: Sequence[Spoken], kept: int | None = KEPT) -> Candidates:
    """Find all candidates in some speech; with `kept`, only this many frames of each place, the best ones."""
    paths = KeywordPaths(network.pronunciations, len(network.words))
    before = np.repeat(network.weights["silence"][None], WINDOW - 1, axis=0).astype(np.float16)
    early, late, apart = (round(each / network.frame_ms) for each in (EARLY_MS, LATE_MS, APART_MS))
    windows, rows = [], []
    for number, scores in _scored(network, paths, material):
        spoken = material[number]
        padded = np.concatenate([before, spoken.frames])
        for word in np.nonzero((scores >= LOOSEST).any(axis=0))[0]:
            frames = np.nonzero(scores[:, word] >= LOOSEST)[0]
            for place in np.split(frames, np.nonzero(np.diff(frames) > apart)[0] + 1):
                best = place if kept is None else place[np.argsort(-scores[place, word])[:kept]]
                for frame in best:
                    right = any(each.word == word and -early <= frame - each.end <= late for each in spoken.keywords)
                    windows.append(padded[frame : frame + WINDOW])
                    rows.append((word, scores[frame, word], right, number, frame))
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return Candidates(
        np.stack(windows) if windows else np.zeros((0, WINDOW, network.width), np.float16),
        np.array(columns[0], np.int64),
        np.array(columns[1], np.float32),
        np.array(columns[2], np.bool_),
        np.array(columns[3], np.int64),
        np.array(columns[4], np.int64),
    )


def _scored(network: KeywordNetwork, paths: KeywordPaths, material: Sequence[Spoken]) -> Iterator[tuple[int, Floats]]:
    """Yield the number of each utterance, and the scores of the words after each of its frames."""
    ordered = sorted(range(len(material)), key=lambda number: len(material[number].frames))
    for start in range(0, len(ordered), AT_ONCE):
        numbers = ordered[start : start + AT_ONCE]
        shares = np.zeros(
            (len(numbers), len(material[numbers[-1]].frames), len(network.weights["phones_bias"])), np.float32
        )
        for row, number in enumerate(numbers):
            frames = material[number].frames
            shares[row, : len(frames)] = network.phones(frames.astype(np.float32))
        _, scores = paths.follow(paths.begin(len(numbers)), shares)
        for row, number in enumerate(numbers):
            yield number, scores[row, : len(material[number].frames)]


# The frames of the encoder for aligned speech, with the keywords in it.

LONGEST_S = 25.0  # longer utterances are not used
BATCH_SECONDS = 60


@dataclass(frozen=True)
class SpokenKeyword:
    """A keyword, and the frame in which it ends."""

    word: int
    end: int


@dataclass(frozen=True)
class Spoken:
    """The frames of one utterance, and the keywords in it."""

    frames: NDArray[np.float16]
    keywords: tuple[SpokenKeyword, ...]
    frame_samples: int

    @property
    def hours(self) -> float:
        """The length of the utterance."""
        return len(self.frames) * self.frame_samples / SAMPLE_RATE / 3600


class AlignedWords:
    """A prepared set of recordings, and when each word of them is said."""

    def __init__(self, work: Path, name: str, labels: str) -> None:
        self.corpus = Corpus(work, name)
        path = work / labels
        if not path.is_file():
            raise CorpusError(f"{path} is missing: run scripts/data/align_speech.py first")
        with path.open(encoding="utf-8") as lines:
            entries = map(json.loads, lines)
            self.words: Mapping[str, list[tuple[str, int, int]]] = {
                line["name"]: [tuple(word) for word in line["words"]] for line in entries if line.get("aligned")
            }

    def utterances(self) -> list[Utterance]:
        """Return the utterances that are aligned and not too long."""
        return [each for each in self.corpus.utterances if each.name in self.words and each.seconds <= LONGEST_S]

    def chosen(self, keywords: Sequence[str], hours: float, seed: int) -> list[Utterance]:
        """Return this many hours of utterances. Half of them have keywords, the rare ones first; the rest is random."""
        among = self.utterances()
        random.Random(seed).shuffle(among)
        keywords_in = {each.name: {word for word, _, _ in self.words[each.name]} & set(keywords) for each in among}
        number = Counter(word for words in keywords_in.values() for word in words)
        rare_first = sorted(
            among, key=lambda each: min((number[word] for word in keywords_in[each.name]), default=10**9)
        )
        half = list(_until(rare_first, hours / 2))
        chosen = {each.name for each in half}
        return half + list(_until((each for each in among if each.name not in chosen), hours / 2))

    def halves(self) -> tuple[list[Utterance], list[Utterance]]:
        """Return every second utterance, and the others."""
        ordered = sorted(self.utterances(), key=lambda each: each.name)
        return ordered[::2], ordered[1::2]

    def spoken(
        self, utterances: Sequence[Utterance], keywords: Sequence[str], model: AcousticNetwork
    ) -> Iterator[Spoken]:
        """Encode utterances. Those of similar length are one batch."""
        chunk, frame = frames_together(model.description, STEP_MS), model.frame_samples
        frame_ms = model.description.encoder.frame_ms
        for some in _batches(utterances):
            samples = torch.stack([padded(self.corpus, each, some[-1].samples, frame) for each in some])
            lengths = [(each.samples + TAIL_SAMPLES) // frame for each in some]
            frames = model.frames(samples, torch.tensor(lengths), chunk)
            for row, length, each in zip(frames, lengths, some, strict=True):
                ends = tuple(
                    SpokenKeyword(keywords.index(word), int((begins + lasts) / frame_ms))
                    for word, begins, lasts in self.words[each.name]
                    if word in keywords
                )
                yield Spoken(row[:length].half().numpy(), ends, frame)


def encoded(
    words: AlignedWords,
    utterances: Sequence[Utterance],
    keywords: Sequence[str],
    model: AcousticNetwork,
    tell: Callable[[str], None],
) -> list[Spoken]:
    """Encode utterances, and report progress."""
    done: list[Spoken] = []
    for number, spoken in enumerate(words.spoken(utterances, keywords, model), start=1):
        done.append(spoken)
        if number % 1000 == 0:
            tell(f"encoded {number} of {len(utterances)} utterances")
    return done


def _batches(utterances: Iterable[Utterance]) -> Iterator[list[Utterance]]:
    batch: list[Utterance] = []
    for each in sorted(utterances, key=lambda each: each.samples):
        if batch and each.seconds * (len(batch) + 1) > BATCH_SECONDS:
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def _until(utterances: Iterable[Utterance], hours: float) -> Iterator[Utterance]:
    seconds = 0.0
    for each in utterances:
        if seconds >= hours * 3600:
            return
        seconds += each.seconds
        yield each
