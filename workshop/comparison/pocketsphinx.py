"""Recognises recordings with PocketSphinx 5, with its own models, and compares its word error rates with ours.

Both are scored with the same normalisation. The results of PocketSphinx can be cached by the content of the audio.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import pocketsphinx  # type: ignore[import-untyped]

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.commands.accuracy.manifest import Utterance
from streamer.commands.accuracy.report import rate_text
from streamer.commands.accuracy.word_errors import ScoredUtterance, corpus_differences, corpus_rates
from streamer.commands.accuracy.word_sections import table
from workshop.data.corpus import replacing
from workshop.processes import Workers


@dataclass(frozen=True)
class Recognition:
    """The result of PocketSphinx for one recording."""

    text: str
    seconds: float
    cpu_s: float


def comparison(theirs: Sequence[ScoredUtterance], ours: Sequence[ScoredUtterance]) -> str:
    """Return the word error rates of both, by corpus and in total. Below zero, the service makes fewer errors."""
    rows = []
    lines = zip(corpus_rates(theirs), corpus_rates(ours), corpus_differences(theirs, ours), strict=True)
    for their, our, difference in lines:
        rows.append(
            [
                our.name,
                str(our.utterances),
                str(our.errors.words),
                rate_text(their.wer),
                rate_text(our.wer),
                rate_text(difference.relative),
            ]
        )
    return table(["corpus", "utterances", "words", "PocketSphinx %", "service %", "service's errors, relative %"], rows)


def heard_by_pocketsphinx(utterances: Sequence[Utterance], cache: Path | None, processes: int) -> Iterator[Recognition]:
    """Recognise all recordings with PocketSphinx, in their order."""
    with Workers(processes, _open) as workers:
        yield from workers.map(_hear, utterances, [cache] * len(utterances))


_decoder: pocketsphinx.Decoder


def _open() -> None:
    global _decoder
    _decoder = pocketsphinx.Decoder(loglevel="FATAL")


def _hear(utterance: Utterance, cache: Path | None) -> Recognition:
    audio = utterance.samples().astype("<i2").tobytes()
    key = hashlib.sha256(f"pocketsphinx {version('pocketsphinx')}\n".encode() + audio).hexdigest()
    file = cache / f"{key}.json" if cache else None
    if file and file.is_file():
        return Recognition(**json.loads(file.read_text(encoding="utf-8")))
    began = time.process_time()
    _decoder.start_utt()
    # PocketSphinx gets the whole recording at once. So it knows the mean of all features, which is best for it.
    _decoder.process_raw(audio, full_utt=True)
    _decoder.end_utt()
    cpu_s = time.process_time() - began
    hypothesis = _decoder.hyp()
    result = Recognition(hypothesis.hypstr if hypothesis else "", len(audio) / 2 / SAMPLE_RATE, cpu_s)
    if file:
        with replacing(file, "w") as stream:
            json.dump(asdict(result), stream)
    return result
