"""Compares ways to train, with the same number of steps and the same first weights, on the second half of dev."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from streamer.commands.accuracy.word_errors import CorpusSample, Counts, interval
from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions
from workshop.acoustic import units
from workshop.acoustic.losses import GOING_ON, Schedule
from workshop.acoustic.training_run import PhoneModel, Run
from workshop.data.corpus import CorpusError, replacing
from workshop.processes import StoppedError
from workshop.search.trials import (
    EmittedUtterance,
    described,
    error_rates,
    halves,
    mean_over_corpora,
    read_emissions,
    run_beam,
    tune,
)

STREAMS = 32
JUDGED_FILE = "judged.json"


@dataclass(frozen=True)
class JudgedUtterance:
    """The result of a run's model on one utterance."""

    name: str
    corpus: str
    speaker: str
    errors: int
    words: int


@dataclass(frozen=True)
class Judge:
    """Evaluates models with the lexicon and the language model of a bundle, starting from its `search.json`."""

    base: Path
    work: Path
    tuned: bool = True  # whether the search's weights are tuned for each model, on a part of the first half
    tuning_beam: int = 64
    tuning_every: int = 2

    def judge(self, bundle: Path, stopped: Callable[[], bool], tell: Callable[[str], None]) -> list[JudgedUtterance]:
        """Return the errors on the second half of dev. StoppedError if the work is stopped before its end."""
        lexicon = Lexicon.load(self.base / LEXICON_FILE)
        language = LanguageModel.load(self.base / LANGUAGE_FILE)
        options = BeamOptions.load(self.base / SEARCH_FILE)
        fitted_on, judged_on = halves(read_emissions(bundle, self.work, "dev", bundle))

        def words(spoken: Sequence[EmittedUtterance], trial: BeamOptions) -> list[list[str]]:
            if stopped():
                raise StoppedError
            return run_beam(spoken, lexicon, language, trial, STREAMS).words

        if self.tuned:
            some = fitted_on[:: self.tuning_every]
            start = replace(options, beam=self.tuning_beam)
            best = tune(lambda trial: mean_over_corpora(error_rates(some, words(some, trial))), start, lambda _: None)
            options = replace(best, beam=options.beam)
            tell(f"search tuned: {described(options)}")
        return [
            JudgedUtterance(
                one.utterance.name,
                one.utterance.corpus,
                one.utterance.speaker,
                units.errors(one.words, hypothesis),
                len(one.words),
            )
            for one, hypothesis in zip(judged_on, words(judged_on, options), strict=True)
        ]


def write_judged(folder: Path, judged: Sequence[JudgedUtterance]) -> None:
    """Write the results to the folder of a run."""
    with replacing(folder / JUDGED_FILE, "w") as file:
        json.dump([asdict(one) for one in judged], file)


def read_judged(folder: Path) -> list[JudgedUtterance] | None:
    """Return the results of a run; None if it was not evaluated yet."""
    path = folder / JUDGED_FILE
    if not path.is_file():
        return None
    return [JudgedUtterance(**one) for one in json.loads(path.read_text(encoding="utf-8"))]


def comparison(results: Mapping[tuple[str, int], Sequence[JudgedUtterance]], baseline: str, what: str = "words") -> str:
    """Return a table: the error rate of each setting, and its change against the baseline. `what` is counted.

    The change is computed on the seeds that both have, and on the same utterances.
    """
    by_setting: dict[str, dict[int, Sequence[JudgedUtterance]]] = defaultdict(dict)
    for (setting, seed), judged in results.items():
        by_setting[setting][seed] = judged
    lines = [f"{'setting':16s} {'seeds':6s} {what} wrong %   against {baseline} on the same seeds, in % of its errors"]
    for setting, runs in by_setting.items():
        rate = interval(_samples(runs, runs), _rate)
        line = f"{setting:16s} {','.join(map(str, sorted(runs))):6s} {rate.value:5.1f}"
        line += "" if rate.low is None else f" [{rate.low:.1f}, {rate.high:.1f}]"
        shared = sorted(runs.keys() & by_setting.get(baseline, {}).keys())
        if setting != baseline and shared:
            other = by_setting[baseline]
            change = interval(_samples({s: runs[s] for s in shared}, {s: other[s] for s in shared}), _change)
            line += f"   {change.value:+.1f}"
            line += "" if change.low is None else f" [{change.low:+.1f}, {change.high:+.1f}]"
        lines.append(line)
    return "\n".join(lines)


def _samples(
    runs: Mapping[int, Sequence[JudgedUtterance]], others: Mapping[int, Sequence[JudgedUtterance]]
) -> list[CorpusSample]:
    """Return the errors, the other setting's errors and the words of each utterance, added up over the seeds."""
    counts: dict[str, dict[str, list[int]]] = defaultdict(dict)
    speakers: dict[str, str] = {}
    for seed, judged in runs.items():
        other_errors = {one.name: one.errors for one in others[seed]}
        for one in judged:
            row = counts[one.corpus].setdefault(one.name, [0, 0, 0])
            for column, value in enumerate((one.errors, other_errors[one.name], one.words)):
                row[column] += value
            speakers[one.name] = one.speaker
    return [
        CorpusSample(corpus, np.array(list(rows.values()), float), [speakers[name] or None for name in rows])
        for corpus, rows in counts.items()
    ]


def _rate(sums: Counts) -> Counts:
    return 100 * sums[:, 0] / sums[:, 2]


def _change(sums: Counts) -> Counts:
    return 100 * (sums[:, 0] - sums[:, 1]) / np.maximum(sums[:, 1], 1)


# Ways to train, to be compared: with the same number of steps and the same first weights, each with several seeds.

BASELINE = "crf"
WRITTEN_TEXT = "written-text"


@dataclass(frozen=True)
class TrainingSetting:
    """One way to train: its differences from a run that continues with CTC-CRF."""

    says: str
    schedule: Schedule = field(default_factory=lambda: replace(GOING_ON, crf_from=0))
    phone_model: PhoneModel = field(default_factory=PhoneModel)
    conditions: str = "usual"
    dropout: float = 0.0
    batch_seconds: float = Run.batch_seconds

    def run(self, work: Path, folder: Path, start: Path, steps: int, seed: int, processes: int | None) -> Run:
        """Return the run with this setting."""
        return Run(
            work,
            folder,
            replace(self.schedule, steps=steps),
            seed=seed,
            batch_seconds=self.batch_seconds,
            start=start,
            processes=processes,
            phone_model=self.phone_model,
            conditions=self.conditions,
            dropout=self.dropout,
        )


def _crf(**changes: float) -> Schedule:
    return replace(GOING_ON, crf_from=0, **changes)  # type: ignore[arg-type]


SETTINGS = {
    BASELINE: TrainingSetting("trigram with the boundary counted, a fifth of CTC, usual conditions"),
    "ctc": TrainingSetting("CTC alone", GOING_ON),
    "ctc-share-0": TrainingSetting("no plain CTC", _crf(ctc_share=0.0)),
    "ctc-share-0.1": TrainingSetting("a tenth of plain CTC", _crf(ctc_share=0.1)),
    "ctc-share-0.4": TrainingSetting("two fifths of plain CTC", _crf(ctc_share=0.4)),
    "bigram": TrainingSetting("phone bigram", phone_model=PhoneModel(order=2)),
    "free-boundary": TrainingSetting("the boundary costs nothing", phone_model=PhoneModel(free_boundary=True)),
    "middle": TrainingSetting("the middle head by CTC-CRF too", phone_model=PhoneModel(middle=True)),
    "hard": TrainingSetting("hard conditions", conditions="hard"),
    "varied": TrainingSetting("hard conditions and other voices", conditions="varied"),
    "dropout": TrainingSetting("a tenth of what each part of a block adds is left out", dropout=0.1),
    "two-views": TrainingSetting("two views, of half as much audio", _crf(consistency=0.2), batch_seconds=40.0),
    "errors": TrainingSetting("the words that may be wrong are counted too", _crf(errors_from=0)),
    "4-gram": TrainingSetting("phone 4-gram (a step takes several times as long)", phone_model=PhoneModel(order=4)),
}


def settings(texts: Sequence[Path]) -> dict[str, TrainingSetting]:
    """Return all settings by name. The last one counts the phones of these texts, and needs some."""
    if not texts:
        return SETTINGS
    phone_model = PhoneModel(texts=tuple(texts))
    return {**SETTINGS, WRITTEN_TEXT: TrainingSetting("the phones of written text too", phone_model=phone_model)}


def chosen(
    names: list[str] | None, seeds: list[int], among: Mapping[str, TrainingSetting] = SETTINGS
) -> Iterator[tuple[str, int]]:
    """Return the settings with these names (default: all but the slowest), each with every seed.

    All settings come with the first seed, then with the next one.
    """
    for name in names or ():
        if name == WRITTEN_TEXT and name not in among:
            raise CorpusError(f"{WRITTEN_TEXT} needs --phone-text")
        if name not in among:
            raise CorpusError(f"there is no setting {name!r}; there are {', '.join(among)}")
    for seed in seeds:
        for name in names or [name for name in among if name != "4-gram"]:
            yield name, seed
