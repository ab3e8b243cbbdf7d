"""Counts the words that are recognised where nobody speaks: in noise and music."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.commands.accuracy.engine_runner import EngineRunner
from streamer.commands.accuracy.manifest import AudioLocation, Utterance
from streamer.commands.accuracy.word_sections import table

AT_ONCE = 8


@dataclass(frozen=True)
class Invented:
    """The words of one pass in all recordings of each folder."""

    name: str
    words: Mapping[str, int]
    seconds: Mapping[str, float]
    failures: Sequence[str]


def recordings(folder: Path) -> list[Utterance]:
    """Return the recordings of a folder. They belong to a corpus with its name, and nothing is said in them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [Utterance(str(path), folder.name, None, (), AudioLocation(path)) for path in files]


def invented(
    name: str, sounds: Sequence[Utterance], second_pass: object, bundle: Path, reader: Path | None
) -> Invented:
    """Recognise these recordings with a pass, `reader` having the weights of a reader."""
    runner = EngineRunner({"second_pass": second_pass}, at_once=AT_ONCE, bundle=bundle, reader=reader)
    results = runner.run(sounds, lambda _utterance, _seconds: None).results
    words: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for result in results:
        corpus = result.utterance.corpus
        words[corpus] = words.get(corpus, 0) + len(result.words)
        seconds[corpus] = seconds.get(corpus, 0.0) + result.seconds
    return Invented(
        name, words, seconds, [f"{result.utterance.name}: {result.failure}" for result in results if result.failure]
    )


def comparison(counted: Sequence[Invented]) -> str:
    """Return a table of the invented words by folder."""
    rows = [
        [corpus, f"{seconds / 60:.1f}", *(str(each.words[corpus]) for each in counted)]
        for corpus, seconds in counted[0].seconds.items()
    ]
    return table(["invented words", "minutes", *(each.name for each in counted)], rows)
