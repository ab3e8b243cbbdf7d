"""Compares starts of an acoustic model: random weights, and the encoder of Moonshine. Both learn from the same batches.

A start is better if it makes fewer words wrong after the same steps with the same losses, above all on speakers that
are in no training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from streamer.commands.accuracy.manifest import HALVES, half
from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions
from workshop.acoustic import units
from workshop.acoustic.losses import NEW_HEADS, Schedule
from workshop.acoustic.training_run import Run
from workshop.comparison.trainings import STREAMS, JudgedUtterance, comparison
from workshop.data.corpus import CorpusError, decoded, read_manifest, replacing, write_corpus
from workshop.processes import StoppedError, Workers
from workshop.search.trials import CHARACTERS_HEAD, HEAD, EmittedUtterance, read_emissions, run_beam, run_greedy

NOTHING, MOONSHINE = STARTS = ("nothing", "moonshine")
GATE: Final = 0.75
"""Moonshine's start must have at most this share of the wrong words to be worth its cost."""
JUDGED_FILE: Final = "starts.json"
LETTERS, GREEDY, LEXICON = "letters", "greedy", "lexicon"
"""What is judged: letters and words by the likeliest letters, and words by the search."""

Results = Mapping[str, Sequence[JudgedUtterance]]
"""The results of a run by set and search."""


def schedule(start: str, steps: int) -> Schedule:
    """Return the plan of this many steps: labels of frames, CTC, and from its middle on CTC-CRF."""
    usual = NEW_HEADS if start == MOONSHINE else Schedule()
    return replace(
        usual,
        steps=steps,
        rise_steps=min(usual.rise_steps, 1 + steps // 8),
        aligned_steps=min(usual.aligned_steps, steps // 5),
        crossfade_steps=min(usual.crossfade_steps, 1 + steps // 10),
        short_steps=min(usual.short_steps, steps // 4),
        crf_from=steps // 2,
        ctc_share=0.1,
        fall=0.6,
    )


@dataclass(frozen=True)
class Comparison:
    """The runs of both starts in one folder."""

    work: Path
    folder: Path
    reader: Path  # the folder of Moonshine
    steps: int
    device: str
    processes: int | None
    batch_seconds: float
    pooled: int
    frozen: bool  # Moonshine's convolutions stay as they are

    def run(self, start: str, minutes: float) -> Run:
        """Return the run of this start, which stops after these minutes."""
        moonshine = start == MOONSHINE
        return Run(
            self.work,
            self.folder / start,
            schedule(start, self.steps),
            minutes,
            batch_seconds=self.batch_seconds,
            device=self.device,
            processes=self.processes,
            encoder_from=self.reader if moonshine else None,
            pooled=self.pooled,
            frozen_stem=moonshine and self.frozen,
        )


@dataclass(frozen=True)
class StartJudge:
    """Judges models on sets of prepared speech, with the search of a bundle and without it."""

    base: Path
    sets: Mapping[str, Path]
    """The folder of each set by its name. Of dev, only the half that no search was tuned on is judged."""

    def judge(self, bundle: Path, known: Results, stopped: Callable[[], bool]) -> Results:
        """Return the results on all sets, those that are `known` already as they are. StoppedError if stopped."""
        missing = [name for name in self.sets if f"{name}, {LEXICON}" not in known]
        if not missing:
            return known
        lexicon = Lexicon.load(self.base / LEXICON_FILE)
        language = LanguageModel.load(self.base / LANGUAGE_FILE)
        options = BeamOptions.load(self.base / SEARCH_FILE)
        results = dict(known)
        for name in missing:
            if stopped():
                raise StoppedError
            letters, phones = (
                _judged(name, read_emissions(bundle, self.sets[name], name, bundle, head=head))
                for head in (CHARACTERS_HEAD, HEAD)
            )
            spelled = run_greedy(letters).words
            found = run_beam(phones, lexicon, language, options, STREAMS).words
            results[f"{name}, {LETTERS}"] = [
                _compared(one, one.utterance.text, " ".join(words)) for one, words in zip(letters, spelled, strict=True)
            ]
            for search, hypotheses in ((GREEDY, spelled), (LEXICON, found)):
                results[f"{name}, {search}"] = [
                    _compared(one, one.words, words) for one, words in zip(phones, hypotheses, strict=True)
                ]
        return results


def _compared(one: EmittedUtterance, right: Sequence[str], found: Sequence[str]) -> JudgedUtterance:
    utterance = one.utterance
    return JudgedUtterance(utterance.name, utterance.corpus, utterance.speaker, units.errors(right, found), len(right))


def _judged(name: str, spoken: Sequence[EmittedUtterance]) -> Sequence[EmittedUtterance]:
    return [one for one in spoken if half(one.name) == HALVES[1]] if name == "dev" else spoken


def prepared_sets(work: Path, manifests: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Return the folders of dev and of these manifests, whose recordings are prepared if they are not yet."""
    sets = {"dev": work}
    for manifest in manifests:
        name = manifest.stem
        if name in sets:
            raise CorpusError(f"two sets have the name {name}: rename {manifest}")
        if not (folder / f"{name}.tsv").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            with Workers(1) as workers:
                write_corpus(folder, name, decoded(workers, manifest.parent, read_manifest(manifest)))
        sets[name] = folder
    return sets


def write_results(folder: Path, results: Results) -> None:
    """Write the results to the folder of a run."""
    with replacing(folder / JUDGED_FILE, "w") as file:
        json.dump({name: [asdict(one) for one in judged] for name, judged in results.items()}, file)


def read_results(folder: Path) -> Results:
    """Return the results of a run so far."""
    path = folder / JUDGED_FILE
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: [JudgedUtterance(**one) for one in judged] for name, judged in content.items()}


def report(results: Mapping[str, Results]) -> str:
    """Return a table for each set and search, by start, and what the gate says."""
    parts = []
    for name in next(iter(results.values()), ()):
        by_start = {(start, 1): own[name] for start, own in results.items() if name in own}
        what = LETTERS if name.endswith(LETTERS) else "words"
        parts.append(f"{name}\n{comparison(by_start, NOTHING, what)}")
        wrong = {start: sum(one.errors for one in judged) for (start, _), judged in by_start.items()}
        if len(wrong) == len(STARTS) and wrong[NOTHING]:
            share = wrong[MOONSHINE] / wrong[NOTHING]
            passed = "passed" if share <= GATE else "not passed"
            parts[-1] += f"\n{share:.2f} times as many errors; the gate of {GATE} is {passed}"
    return "\n\n".join(parts)
