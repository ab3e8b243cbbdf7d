"""The frames of the encoder for aligned speech, with the keywords in it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.engine.models.acoustic_model import AcousticModel
from streamer.training.acoustic.evaluation_batches import FRAME_MS, TAIL_SAMPLES, padded
from streamer.training.data.corpus import Corpus, CorpusError, Utterance

LONGEST_S = 25.0  # longer utterances are not used
BATCH_SECONDS = 60
STEP_MS = 320  # the default of a session


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

    @property
    def hours(self) -> float:
        """The length of the utterance."""
        return len(self.frames) * FRAME_MS / 3.6e6


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
        self, utterances: Sequence[Utterance], keywords: Sequence[str], model: AcousticModel
    ) -> Iterator[Spoken]:
        """Encode utterances. Those of similar length are one batch."""
        chunk = STEP_MS // FRAME_MS
        for some in _batches(utterances):
            samples = torch.stack([padded(self.corpus, each, some[-1].samples) for each in some])
            lengths = [(each.samples + TAIL_SAMPLES) // model.frame_samples for each in some]
            frames = model.frames(samples, torch.tensor(lengths), chunk)
            for row, length, each in zip(frames, lengths, some, strict=True):
                ends = tuple(
                    SpokenKeyword(keywords.index(word), (begins + lasts) // FRAME_MS)
                    for word, begins, lasts in self.words[each.name]
                    if word in keywords
                )
                yield Spoken(row[:length].half().numpy(), ends)


def encoded(
    words: AlignedWords,
    utterances: Sequence[Utterance],
    keywords: Sequence[str],
    model: AcousticModel,
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
