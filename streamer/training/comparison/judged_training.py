"""Evaluates the training runs of a comparison on the second half of dev, and makes a table of the settings."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.evaluate.measures.bootstrap import CorpusSample, Counts, interval
from streamer.training.acoustic import units
from streamer.training.data.replaced_file import replacing
from streamer.training.search.corpus_errors import error_rates, halves, mean_over_corpora
from streamer.training.search.emission_cache import EmittedUtterance, read_emissions
from streamer.training.search.search_trials import run_beam
from streamer.training.search.weight_tuning import described, tune
from streamer.training.stop_signals import StoppedError

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


def comparison(results: Mapping[tuple[str, int], Sequence[JudgedUtterance]], baseline: str) -> str:
    """Return a table: the word error rate of each setting, and its change against the baseline.

    The change is computed on the seeds that both have, and on the same utterances.
    """
    by_setting: dict[str, dict[int, Sequence[JudgedUtterance]]] = defaultdict(dict)
    for (setting, seed), judged in results.items():
        by_setting[setting][seed] = judged
    lines = [f"{'setting':16s} {'seeds':6s} words wrong %   against {baseline} on the same seeds, in % of its errors"]
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
