"""Ways to train, to be compared: with the same number of steps and the same first weights, each with several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from streamer.training.acoustic.schedule import GOING_ON, Schedule
from streamer.training.acoustic.training_run import PhoneModel, Run
from streamer.training.data.corpus import CorpusError

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
