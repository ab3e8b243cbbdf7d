"""Speech of synthetic voices: words that train lacks, numbers, spelled letters and commands.

The same seed gives the same speech.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from streamer.training.data.corpus import SAMPLE_RATE, Corpus, Samples, Utterance, write_corpus
from streamer.training.data.synthetic_prompts import prompts, spoken, transcript
from streamer.training.data.synthetic_voices import Voice, draw_voice
from streamer.training.language.pronunciation import cmu_dictionary
from streamer.training.workers import Workers

SHORTEST_RARE_WORD = 3
SAID_AT_ONCE = 256


def synthesise(work: Path, hours: float, engines: Sequence[str], seed: int, processes: int) -> list[Utterance]:
    """Write the set `synthetic` beside the prepared train and dev."""
    train_words = {word for utterance in Corpus(work, "train").utterances for word in utterance.text.split()}
    rare = [
        word
        for word in sorted(cmu_dictionary())
        if word not in train_words and "'" not in word and len(word) >= SHORTEST_RARE_WORD
    ]
    dev_texts = {utterance.text for utterance in Corpus(work, "dev").utterances}
    planned = planned_speech(rare, dev_texts, engines, random.Random(seed))
    with Workers(processes) as workers:
        return write_corpus(work, "synthetic", _speech(workers, planned, hours * 3600))


def planned_speech(
    words: Sequence[str], unwanted: Collection[str], engines: Sequence[str], rng: random.Random
) -> Iterator[tuple[Voice, str]]:
    """Yield voices and their texts without end. All engines come equally often. Texts of `unwanted` are never said."""
    turns = itertools.cycle(engines)
    for prompt in prompts(words, rng):
        if transcript(prompt) not in unwanted:
            yield draw_voice(next(turns), rng), prompt


def _speech(
    workers: Workers, planned: Iterator[tuple[Voice, str]], seconds: float
) -> Iterator[tuple[Utterance, Samples]]:
    """Return the speech of the beginning of the plan, with this many seconds."""
    number = 0
    while seconds > 0:
        voices, texts = zip(*itertools.islice(planned, min(SAID_AT_ONCE, 1 + int(seconds / 2))), strict=True)
        recordings = workers.map(Voice.say, voices, map(spoken, texts), chunk=8)
        for voice, text, samples in zip(voices, texts, recordings, strict=True):
            if seconds > 0:
                name = f"synthetic/{voice.engine}-{number:06d}"
                corpus = f"synthetic_{voice.engine}"
                yield Utterance(name, 0, len(samples), corpus, voice.speaker, transcript(text)), samples
                seconds -= len(samples) / SAMPLE_RATE
                number += 1
