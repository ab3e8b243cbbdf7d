"""Makes training speech from recordings without text: recognises them, looks up sentences, and keeps sure texts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamer.base.limits import STEPS_MS
from streamer.base.text import counted
from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE, load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions, HypothesisWord
from workshop.acoustic.units import BLANK, BOUNDARY, PHONE_NUMBER
from workshop.data.corpus import CorpusError, Row, Samples, Utterance, decode, write_corpus, write_given
from workshop.language.pronunciation import Pronunciations
from workshop.language.text_sources import UNKNOWN, read_transcripts, sentences
from workshop.processes import Workers
from workshop.search.trials import EmittedUtterance, read_emissions, run_beam

STREAMS = 48
CANDIDATES = 40
STEP_MS = max(STEPS_MS)


@dataclass(frozen=True)
class Sources:
    """The parts and files that are needed to make labels."""

    bundle: Path  # the recogniser
    sentences: Sequence[Path]  # text files with sentences that may have been read aloud
    dev: Path  # a manifest; its texts may not become labels
    beam: int = 96


def label(
    recordings: Path,
    work: Path,
    name: str,
    output: Path,
    sources: Sources,
    limits: Thresholds,
    tell: Callable[[str], None],
) -> list[Row]:
    """Label a set that was prepared from a folder. Utterances with a label are written as a folder of given speech."""
    avoided = {" ".join(reference.words) for reference in read_transcripts(sources.dev)}
    sentences = KnownSentences(read_sentences(sources.sentences, avoided))
    tell(counted(len(sentences), "known sentence"))
    spoken = read_emissions(sources.bundle, work, name, work, STEP_MS)
    tell(f"{counted(len(spoken), 'recording')}, {sum(one.utterance.seconds for one in spoken) / 3600:.2f} h")
    scores = text_scores(sources.bundle)
    rows = [
        _row(name, one.utterance, label)
        for one, words in zip(spoken, hear(spoken, sources.bundle, sources.beam), strict=True)
        if (label := find_label(one, words, sentences, scores, limits)) and label.text not in avoided
    ]
    written = write_given(output, name, ((row, (recordings / row.member).read_bytes()) for row in rows))
    for kind in (FOUND, HEARD):
        seconds = [row.seconds for row in written if row.corpus == f"{name}_{kind}"]
        tell(f"{kind}: {counted(len(seconds), 'recording')}, {sum(seconds) / 3600:.2f} h")
    return written


def hear(spoken: Sequence[EmittedUtterance], bundle: Path, beam: int) -> list[tuple[HypothesisWord, ...]]:
    """Recognise each utterance."""
    lexicon = Lexicon.load(bundle / LEXICON_FILE)
    language = LanguageModel.load(bundle / LANGUAGE_FILE)
    options = replace(BeamOptions.load(bundle / SEARCH_FILE), beam=beam)
    with torch.inference_mode():
        return run_beam(spoken, lexicon, language, options, STREAMS, load_rescorer(bundle, language)).hypotheses


def text_scores(bundle: Path) -> TextScores:
    """Return the scores of texts, by the pronunciations that a bundle knows."""
    return TextScores(Pronunciations.load(bundle))


def find_label(
    one: EmittedUtterance,
    words: Sequence[HypothesisWord],
    sentences: KnownSentences,
    scores: TextScores,
    limits: Thresholds,
) -> Label | None:
    """Return the label of an utterance. The recognised words compete with the known sentences nearest to them."""
    if not words:
        return None
    texts = [word.text for word in words]
    candidates = sentences.nearest(texts, CANDIDATES)
    own, *others = scores.score(one.emissions, [" ".join(texts), *candidates])
    return choose(words, own, dict(zip(candidates, others, strict=True)), limits)


def _row(name: str, utterance: Utterance, label: Label) -> Row:
    seconds = round(utterance.seconds, 3)
    # The speakers are unknown, so each recording gets a speaker of its own.
    return Row("", utterance.name, seconds, f"{name}_{label.kind}", utterance.name, label.text.upper())


# Decides which text an utterance gets: a known sentence that fits well, the recognised words, or no text.

FOUND, HEARD = "found", "heard"


@dataclass(frozen=True)
class Thresholds:
    """How sure a text must be. docs/how-to/training.md has figures for these values on speech whose text is known."""

    # Pairs of limits in nats per frame. A known sentence may be less likely than the recognised words by the first
    # number, if it is likelier than the next sentence by the second number.
    found: tuple[tuple[float, float], ...] = ((0.05, 0.1), (0.15, 0.3), (0.3, 0.6))
    heard: float = 0.6  # the least sureness of recognised words
    fewest_words: int = 3  # fewer words are not reliable


@dataclass(frozen=True)
class Label:
    """The text of an utterance and where it comes from: FOUND or HEARD."""

    kind: str
    text: str


def sureness(words: Sequence[HypothesisWord], own_score: float) -> float:
    """Return how sure recognised words are.

    It is the sum of two figures: the log-likelihood of the words per frame, which shows how well the phones fit, and
    the words' mean share of the search's probability.
    """
    return own_score + sum(word.share for word in words) / len(words)


def choose(
    words: Sequence[HypothesisWord], own_score: float, scores: Mapping[str, float], limits: Thresholds
) -> Label | None:
    """Return the label of an utterance, if there is a sure one.

    Scores are log-likelihoods per frame: `own_score` of the recognised words, `scores` of the possible sentences.
    """
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    if ranked:
        loss = own_score - scores[ranked[0]]
        lead = scores[ranked[0]] - scores[ranked[1]] if len(ranked) > 1 else math.inf
        if any(loss <= most and lead >= least for most, least in limits.found):
            return Label(FOUND, ranked[0])
    if len(words) < limits.fewest_words:
        return None
    if sureness(words, own_score) >= limits.heard:
        return Label(HEARD, " ".join(word.text for word in words))
    return None


# Finds the sentences that may have been read aloud: those nearest to the recognised words.

# A word or pair that is in more sentences than this does not help to find the one that was read, and would cost time.
MOST_SENTENCES = 20_000
# Shorter sentences would match by chance. Longer ones are not given to people to read.
FEWEST_WORDS, MOST_WORDS = 3, 20


def read_sentences(paths: Iterable[Path], avoided: Collection[str] = ()) -> Iterator[str]:
    """Read the sentences of text files, in lower case and as they are spoken, without those to be avoided."""
    for path in paths:
        if not path.is_file():
            raise CorpusError(f"{path} is missing: give a text file of sentences")
        with path.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                for words in sentences(line):
                    sentence = " ".join(words)
                    if FEWEST_WORDS <= len(words) <= MOST_WORDS and UNKNOWN not in words and sentence not in avoided:
                        yield sentence


class KnownSentences:
    """An index from words, and from pairs of neighbouring words, to the sentences that have them. Rare ones count most.

    The pairs find a sentence whose words are all frequent. Of two equal matches, the shorter sentence is nearer.
    """

    def __init__(self, sentences: Iterable[str], most_sentences: int = MOST_SENTENCES) -> None:
        self._sentences = list(dict.fromkeys(sentences))
        self._numbers: dict[str, int] = {}
        self._most = most_sentences
        numbers, lengths = array("i"), array("i")
        for sentence in self._sentences:
            words = sentence.split()
            lengths.append(len(words))
            numbers.extend(self._numbers.setdefault(word, len(self._numbers)) for word in words)
        words_said = np.array(numbers, dtype=np.int64)
        said_in = np.repeat(np.arange(len(lengths), dtype=np.int32), np.array(lengths, dtype=np.int64))
        neighbours = np.flatnonzero(said_in[1:] == said_in[:-1])
        pairs_said = words_said[neighbours] * len(self._numbers) + words_said[neighbours + 1]
        self._words = _Postings(words_said, said_in, len(lengths))
        self._pairs = _Postings(pairs_said, said_in[neighbours], len(lengths))
        # A long sentence has more words that may match by chance, so the total weight of each sentence is needed.
        self._sizes = np.sqrt(self._words.totals + self._pairs.totals + 1e-9)
        self._scores = np.zeros(len(lengths))  # all zero between two calls

    def __len__(self) -> int:
        return len(self._sentences)

    def nearest(self, words: Sequence[str], number: int) -> list[str]:
        """Return up to this many sentences that share words with the recognised ones, the nearest first."""
        numbers = [self._numbers.get(word, -1) for word in words]
        pairs = [one * len(self._numbers) + other for one, other in pairwise(numbers) if min(one, other) >= 0]
        matches = [
            (matching, weight)
            for postings, keys in ((self._words, numbers), (self._pairs, pairs))
            for matching, weight in map(postings.find, dict.fromkeys(keys))
            if 0 < len(matching) <= self._most
        ]
        if not matches:
            return []
        for matching, weight in matches:
            self._scores[matching] += weight
        candidates = np.concatenate([matching for matching, _ in matches])
        scores = self._scores[candidates] / self._sizes[candidates]
        self._scores[candidates] = 0
        # Every candidate is there at most once for each word and pair.
        best = np.argsort(-scores, kind="stable")[: number * len(matches)]
        return [self._sentences[candidate] for candidate in dict.fromkeys(candidates[best].tolist())][:number]


class _Postings:
    """An index from keys to the numbers of the sentences that have them."""

    def __init__(self, keys: npt.NDArray[np.int64], said_in: npt.NDArray[np.int32], sentences: int) -> None:
        order = np.argsort(keys, kind="stable")
        keys, said_in = keys[order], said_in[order]
        first = np.ones(len(keys), dtype=bool)  # of a key in a sentence, which may have it several times
        first[1:] = (keys[1:] != keys[:-1]) | (said_in[1:] != said_in[:-1])
        keys, self._said_in = keys[first], said_in[first]
        self._keys, starts, occurrences = np.unique(keys, return_index=True, return_counts=True)
        self._ends = np.append(starts, len(keys))
        self._weights = np.log((sentences + 1) / occurrences) ** 2
        self.totals = np.bincount(self._said_in, np.repeat(self._weights, occurrences), minlength=sentences)

    def find(self, key: int) -> tuple[npt.NDArray[np.int32], float]:
        """Return the sentences that have a key, and the key's weight."""
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            return self._said_in[:0], 0.0
        return self._said_in[self._ends[place] : self._ends[place + 1]], float(self._weights[place])


class TextScores:
    """Scores texts by emissions of the phones' head. It remembers the pronunciations of words."""

    def __init__(self, pronunciations: Pronunciations) -> None:
        self._pronunciations = pronunciations
        self._units_by_word: dict[str, list[int]] = {}

    def score(self, emissions: Tensor, texts: Sequence[str]) -> list[float]:
        """Return the log-likelihood of each text for emissions [frames, units], divided by the number of frames.

        The score of a text that is too long for this number of frames is minus infinity.
        """
        units = [self.units(text) for text in texts]
        lengths = torch.tensor([len(numbers) for numbers in units])
        targets = torch.nn.utils.rnn.pad_sequence([torch.tensor(numbers) for numbers in units], batch_first=True)
        frames = len(emissions)
        losses = torch.nn.functional.ctc_loss(
            emissions.float().unsqueeze(1).expand(-1, len(texts), -1),
            targets,
            torch.full((len(texts),), frames),
            lengths,
            blank=BLANK,
            reduction="none",
        )
        return [-loss / frames for loss in losses.tolist()]

    def units(self, text: str) -> list[int]:
        """Return the phones of a text: the most usual pronunciation of each word, and a boundary after it."""
        return [unit for word in text.split() for unit in self._pronounced(word)]

    def _pronounced(self, word: str) -> list[int]:
        if word not in self._units_by_word:
            phones = next(iter(self._pronunciations.variants(word)), ())
            self._units_by_word[word] = [PHONE_NUMBER[phone] for phone in (*phones, BOUNDARY)]
        return self._units_by_word[word]


# Makes a prepared set from a folder of recordings without text.

ENDINGS = {".flac", ".mp3", ".ogg", ".opus", ".wav"}


def prepare_recordings(folder: Path, work: Path, name: str, processes: int) -> list[Utterance]:
    """Decode all recordings below a folder. An utterance has the name of its file, and no text."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not paths:
        raise CorpusError(f"there are no recordings in {folder}: it needs files {', '.join(sorted(ENDINGS))}")
    return write_corpus(work, name, _decoded(folder, paths, processes))


def _decoded(folder: Path, paths: list[Path], processes: int) -> Iterator[tuple[Utterance, Samples]]:
    with Workers(processes) as workers:
        for path, samples in zip(paths, workers.map(_read, paths, chunk=32), strict=True):
            yield Utterance(path.relative_to(folder).as_posix(), 0, len(samples), "", "", ""), samples


def _read(path: Path) -> Samples:
    return decode(path.read_bytes(), str(path))
