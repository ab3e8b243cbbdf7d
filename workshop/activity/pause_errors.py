"""Measures whether pauses cause word errors: utterances are recognised alone, and joined with pauses between them.

Only errors at the edges count: in the first two and the last two words of each utterance, and insertions beside them.
If a word is lost, doubled or split at the end of a segment, the joined utterance has an error at its edge that the same
utterance alone does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamer.base.events import Cut, Final
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from workshop.data.corpus import SAMPLE_RATE, Corpus, Samples, Utterance

EDGE_WORDS = 2
LONGEST_SECONDS = 8.0
TOGETHER = 8
PAUSES_MS = (100, 3000)
BOUNDS_MS = (500, 1000, 1500, 3001)
FAINT = 3


@dataclass
class Edges:
    """Errors at the edges of utterances: alone, and with a pause before or after them."""

    words: int = 0
    alone: int = 0
    joined: int = 0

    def row(self, name: str) -> str:
        """Return a line of the table."""
        rates = " | ".join(f"{100 * errors / max(self.words, 1):.1f} %" for errors in (self.alone, self.joined))
        return f"| {name} | {self.words} | {rates} |"


def drawn(corpus: Corpus, number: int, rng: np.random.Generator) -> list[Utterance]:
    """Draw this many short utterances with enough words for two edges."""
    short = [
        utterance
        for utterance in corpus.utterances
        if utterance.seconds <= LONGEST_SECONDS and len(utterance.text.split()) >= 2 * EDGE_WORDS
    ]
    return [short[index] for index in rng.permutation(len(short))[:number]]


def measure(
    recogniser: Recogniser,
    corpus: Corpus,
    chosen: Sequence[Utterance],
    options: StreamOptions,
    rng: np.random.Generator,
) -> str:
    """Recognise the utterances alone and joined, and return the table."""
    pauses = np.exp(rng.uniform(np.log(PAUSES_MS[0]), np.log(PAUSES_MS[1]), len(chosen))).astype(int)
    groups = [range(start, min(start + TOGETHER, len(chosen))) for start in range(0, len(chosen), TOGETHER)]
    joined = [
        np.concatenate([part for i in group for part in (corpus.samples(chosen[i]), _pause(pauses[i], i % 2 * FAINT))])
        for group in groups
    ]
    words = [utterance.text.split() for utterance in chosen]
    alone, _ = transcribe(recogniser, [corpus.samples(utterance) for utterance in chosen], options)
    together, cuts = transcribe(recogniser, joined, options)
    by_pause, all_alone, all_joined = {bound: Edges() for bound in BOUNDS_MS}, 0, 0
    for group, hypothesis in zip(groups, together, strict=True):
        errors = errors_by_word([word for i in group for word in words[i]], hypothesis)
        all_joined += sum(errors)
        begin = 0
        for i in group:
            own = errors_by_word(words[i], alone[i])
            all_alone += sum(own)
            end = begin + len(words[i])
            following = next(bound for bound in BOUNDS_MS if pauses[i] < bound)
            # The first number is for insertions before the first word. They count on both sides of the pause.
            by_pause[following].words += EDGE_WORDS
            by_pause[following].alone += sum(own[-EDGE_WORDS:])
            by_pause[following].joined += sum(errors[end - EDGE_WORDS + 1 : end + 1])
            if i > group[0]:
                before = next(bound for bound in BOUNDS_MS if pauses[i - 1] < bound)
                by_pause[before].words += EDGE_WORDS
                by_pause[before].alone += sum(own[: EDGE_WORDS + 1])
                by_pause[before].joined += sum(errors[begin + 1 : begin + EDGE_WORDS + 1])
            begin = end
    total = sum(map(len, words))
    lines = [
        f"{len(chosen)} utterances, {total} words, {cuts} cuts; of all words wrong: "
        f"{100 * all_alone / total:.1f} % alone, {100 * all_joined / total:.1f} % joined",
        "",
        "| pause | words at its edges | wrong alone | wrong joined |",
        "|---|---|---|---|",
    ]
    lower = PAUSES_MS[0]
    for bound, edges in by_pause.items():
        lines.append(edges.row(f"{lower} to {bound - bound % 10} ms"))
        lower = bound
    return "\n".join(lines)


def transcribe(
    recogniser: Recogniser, recordings: Sequence[Samples], options: StreamOptions
) -> tuple[list[list[str]], int]:
    """Return the words of each recording, and the number of cuts in all of them."""
    texts: list[list[str]] = [[] for _ in recordings]
    cuts = 0
    for start in range(0, len(recordings), TOGETHER):
        streams = range(start, min(start + TOGETHER, len(recordings)))
        for stream in streams:
            recogniser.open(stream, options)
        longest = max(len(recordings[stream]) for stream in streams)
        for second in range(0, longest // SAMPLE_RATE + 1, 10):
            piece = slice(second * SAMPLE_RATE, (second + 10) * SAMPLE_RATE)
            last = second + 10 > longest // SAMPLE_RATE
            chunks = [Chunk(stream, recordings[stream][piece], end=last) for stream in streams]
            for index, answer in recogniser.step(chunks):
                if isinstance(answer, StreamError):
                    raise answer
                for event in answer:
                    cuts += isinstance(event, Cut)
                    if isinstance(event, Final):
                        texts[chunks[index].stream] += event.text.split()
    return texts, cuts


def errors_by_word(reference: Sequence[str], hypothesis: Sequence[str]) -> list[int]:
    """Return the errors of the best alignment: insertions before the first word, then each word's errors.

    The errors of a word include the insertions after it.
    """
    rows, columns = len(reference) + 1, len(hypothesis) + 1
    cost = np.zeros((rows, columns), dtype=int)
    cost[:, 0], cost[0, :] = np.arange(rows), np.arange(columns)
    for i in range(1, rows):
        for j in range(1, columns):
            wrong = reference[i - 1] != hypothesis[j - 1]
            cost[i, j] = min(cost[i - 1, j - 1] + wrong, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    errors, i, j = [0] * rows, rows - 1, columns - 1
    while i or j:
        differs = i > 0 and j > 0 and reference[i - 1] != hypothesis[j - 1]
        if i and j and cost[i, j] == cost[i - 1, j - 1] + differs:
            errors[i] += differs
            i, j = i - 1, j - 1
        elif j and cost[i, j] == cost[i, j - 1] + 1:
            errors[i] += 1
            j -= 1
        else:
            errors[i] += 1
            i -= 1
    return errors


def _pause(milliseconds: int, faint: int) -> Samples:
    noise = np.random.default_rng(milliseconds).integers(-faint, faint + 1, milliseconds * SAMPLE_RATE // 1000)
    return noise.astype(np.int16)
