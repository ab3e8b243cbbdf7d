"""One run on one machine: its processes, checkpoint, log, curves and errors on dev. It returns the trained model."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from streamer.base.limits import STEPS_MS
from streamer.base.text import counted
from streamer.bridge.triton.repository import asr_repository
from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, EncoderConfig
from streamer.engine.networks.acoustic_network import AcousticNetwork
from workshop.acoustic import units
from workshop.acoustic.augmentation import CONDITIONS, Augmentation, add_dropout
from workshop.acoustic.batches import TAIL_SAMPLES, Batches, Recipe, batches, padded
from workshop.acoustic.growth import Growth, grown
from workshop.acoustic.losses import HeadLosses, Schedule, Teacher
from workshop.acoustic.moonshine_start import start_from
from workshop.acoustic.trainer import ProcessGroup, Trainer
from workshop.data.alignment import Alignment, read_alignments, read_targets
from workshop.data.corpus import Corpus, CorpusError, Utterance
from workshop.language.pronunciation import Pronunciations
from workshop.model_steps import frames_together
from workshop.phones.denominator import NgramTables
from workshop.phones.expected_errors import BeamAlternatives
from workshop.phones.phone_ngram import estimate, written_phones
from workshop.processes import STOP_SIGNALS
from workshop.weights import precision_of

SIZES = {
    "tiny": {"width": 32, "layers": 2, "heads": 2, "feedforward": 64},  # learns little: for trying out a command
    "small": {"width": 192, "layers": 8, "heads": 4, "feedforward": 576},
    "base": {"width": 256, "layers": 12, "heads": 4, "feedforward": 1024},
}
LOG_STEPS = 20


@dataclass(frozen=True)
class PhoneModel:
    """The n-gram over phones in CTC-CRF's denominator, and the heads that learn with CTC-CRF."""

    order: int = 3
    free_boundary: bool = False  # the boundary after a word has weight 1 and is not in the contexts
    middle: bool = False  # the middle head learns by CTC-CRF too
    texts: tuple[Path, ...] = ()  # written text, beside the transcripts

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that learn with CTC-CRF."""
        return ("phones", "phones_middle") if self.middle else ("phones",)

    def tables(self, alignments: Iterable[Alignment], device: torch.device) -> NgramTables:
        """Return the n-gram of the phones of these transcripts, and of the texts."""
        sequences = [units.phones(alignment) for alignment in alignments]
        if self.texts:
            sequences += written_phones(self.texts, Pronunciations.load())
        free = units.PHONE_NUMBER[units.BOUNDARY] if self.free_boundary else None
        return NgramTables(estimate(sequences, len(units.PHONE_UNITS), self.order, free), device)


@dataclass(frozen=True)
class Run:
    """What to train on, in which folder, with which schedule and how many processes."""

    work: Path  # prepared and aligned speech
    folder: Path
    schedule: Schedule
    minutes: float = 1e6  # the longest time of this call of `train`
    size: str = "small"
    seed: int = 1
    batch_seconds: float = Recipe.seconds
    start: Path | None = None  # a bundle, for a new run
    encoder_from: Path | None = None  # the folder of a Moonshine, for a new run with its encoder
    pooled: int = 2  # how many of its frames become one
    frozen_stem: bool = False  # the convolutions of an encoder that reads samples stay as they are
    growth: Growth | None = None  # makes the model of that bundle larger
    teacher: Path | None = None  # the bundle of a model to learn from, beside the transcripts
    taught: float = 0.7  # the weight of the distance from the teacher
    device: str = "cpu"
    processes: int | None = None  # by default one for each core, and one on a GPU
    phone_model: PhoneModel = PhoneModel()
    conditions: str = "usual"  # how strongly the audio is changed: a name in CONDITIONS
    dropout: float = 0.0
    repeated: Mapping[str, int] = field(default_factory=dict)  # how often an epoch has the recordings of a corpus
    keep_every: int | None = None  # steps after which the averaged weights are kept for good
    save_seconds: float = 240.0  # between checkpoints

    def train(self, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Start or continue training, until this piece is over or `stopped` returns true. The state is saved."""
        size = self._process_count()
        with tempfile.TemporaryDirectory() as folder:
            rendezvous = Path(folder) / "processes"
            processes = ProcessGroup(0, size, rendezvous)
            trainer = self._trainer(processes)
            spawn = multiprocessing.get_context("spawn")
            others = [
                spawn.Process(target=_follow, args=(self, rank, size, rendezvous), daemon=True)
                for rank in range(1, size)
            ]
            # A signal that all processes get is held back. Otherwise it would end those that have no handler yet.
            with _held_back(STOP_SIGNALS):
                for process in others:
                    process.start()
            processes.join()
            self._lead(trainer, stopped, tell)
            processes.leave()
            for process in others:
                process.join(timeout=60)

    def _process_count(self) -> int:
        if self.processes is None:
            return 1 if self.device.startswith("cuda") else os.cpu_count() or 1
        if self.processes < 1:
            raise CorpusError("--processes must be 1 or more")
        return self.processes

    def _lead(self, trainer: Trainer, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Train in the process that also writes the files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if trainer.step:
            tell(f"going on at step {trainer.step}, minute {trainer.trained_seconds / 60:.1f}")
        weights = sum(weight.numel() for weight in trainer.model.parameters())
        tell(f"{weights / 1e6:.1f} M weights, {trainer.processes.size} process(es) on {self.device}")
        with (self.folder / "log.jsonl").open("a", buffering=1, encoding="utf-8") as log:
            trainer.train(self.minutes, _notes(trainer, self, log.write), stopped)
        _save(trainer, self.folder)
        tell(f"stopped at step {trainer.step}, {100 * trainer.progress:.0f} % of the plan")

    def _trainer(self, processes: ProcessGroup) -> Trainer:
        """Return the trainer of this run, in its last saved state."""
        if self.device == "cpu":
            torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        device = torch.device(self.device)
        path = _checkpoint_path(self.folder)
        state = _checkpoint(path) if path.exists() else None
        model = self._model(state).to(device)
        corpus, alignments = Corpus(self.work, "train"), read_targets(self.work, "train")
        missing = sum(utterance.name not in alignments for utterance in corpus.utterances)
        if missing:
            raise CorpusError(
                f"{counted(missing, 'utterance')} of train have no phones: run scripts/data/align_speech.py"
                f" --work {self.work} train"
            )
        tables = None
        if self.schedule.crf_from is not None:
            tables = self.phone_model.tables(alignments.values(), device)
        synthetic = Corpus(self.work, "synthetic") if (self.work / "synthetic.tsv").exists() else None
        if synthetic:
            alignments |= read_alignments(self.work, "synthetic")
        recipe = Recipe(seconds=self.batch_seconds, repeated=self.repeated)
        frame = model.frame_samples
        batches = Batches(corpus, alignments, self.seed, recipe, device, frame, synthetic)
        noise, rooms = Corpus(self.work, "noise"), Corpus(self.work, "rooms")
        augmentation = Augmentation(noise, rooms, device, CONDITIONS[self.conditions])
        alternatives = None
        if self.schedule.errors_from is not None:
            alternatives = BeamAlternatives.load(asr_repository() / "streaming_asr" / "1")
        losses = HeadLosses(self.schedule, tables, self.phone_model.heads, alternatives)
        if self.dropout:
            add_dropout(model.encoder, self.dropout)
        precision = precision_of(device)
        teacher = Teacher(self.teacher, self.taught, device) if self.teacher else None
        if teacher and teacher.frame_samples != frame:
            raise CorpusError(
                f"{self.teacher} cannot teach: its frames have {teacher.frame_samples} samples, not {frame}"
            )
        trainer = Trainer(model, batches, augmentation, self.schedule, self.seed, precision, processes, losses, teacher)
        if state:
            trainer.load(state)
        elif not self.start:
            trainer.measure_features()
        return trainer

    def _model(self, state: dict[str, Any] | None) -> AcousticNetwork:
        model = self._new_model(state)
        if self.frozen_stem:
            if model.reads_features:
                raise CorpusError("only an encoder that reads samples has convolutions that can stay as they are")
            model.encoder.stem.requires_grad_(False)
        return model

    def _new_model(self, state: dict[str, Any] | None) -> AcousticNetwork:
        if state:
            return AcousticNetwork(ModelDescription.from_json(json.loads(state["description"])))
        if self.encoder_from:
            return start_from(self.encoder_from, pooled=self.pooled)
        if self.start:
            model = AcousticNetwork.load(self.start)
            return (grown(model, self.growth) if self.growth else model).requires_grad_(True)
        return AcousticNetwork(describe(self.size))


def describe(size: str) -> ModelDescription:
    """Return a model of a named size, with its heads."""
    shape = SIZES[size]
    names = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS, "phones_middle": units.PHONE_UNITS}
    layers = shape["layers"]
    outputs = tuple(
        CtcHead(head, layers // 2 if head.endswith("_middle") else layers, len(unit_names))
        for head, unit_names in names.items()
    )
    return ModelDescription("streamer-en-1", EncoderConfig(outputs=outputs, **shape), names, STEPS_MS)


def averaged_model(run: Path) -> AcousticNetwork:
    """Return the model with the averaged weights of the run in this folder, for evaluation and for a bundle."""
    state = _checkpoint(_checkpoint_path(run))
    model = AcousticNetwork(ModelDescription.from_json(json.loads(state["description"])))
    model.load_state_dict(state["average"])
    return model.eval().requires_grad_(False)


def steps_of(run: Path) -> int:
    """Return how many steps the run in this folder has made; 0 if there is none yet."""
    path = _checkpoint_path(run)
    return int(_checkpoint(path)["step"]) if path.is_file() else 0


def _follow(run: Run, rank: int, size: int, rendezvous: Path) -> None:
    """Train as another process of the run. It stops when the first one stops, and fails when that one has ended."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    processes = ProcessGroup(rank, size, rendezvous)
    trainer = run._trainer(processes)
    processes.join()
    trainer.train(run.minutes, lambda _: None, lambda: False)
    processes.leave()


@contextmanager
def _held_back(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Hold these signals back in this context, also in the processes that are started in it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def _notes(trainer: Trainer, run: Run, write: Callable[[str], object]) -> Callable[[dict[str, float]], None]:
    """Log every few steps, save the run every few minutes, and keep averaged weights every `keep_every` steps."""
    recent: dict[str, list[float]] = {}
    saved = time.monotonic()

    def note(figures: dict[str, float]) -> None:
        nonlocal saved
        for name, value in figures.items():
            recent.setdefault(name, []).append(value)
        if trainer.step % LOG_STEPS == 0:
            # A run that goes on has fewer steps for its first line, and so has a loss that was added since.
            means = {name: fmean(values) for name, values in recent.items()}
            exact = {name: figures[name] for name in ("step", "epoch", "hours", "minutes", "rate")}
            line = {name: round(value, 5) for name, value in {**means, **exact}.items() if name != "chunk"}
            write(json.dumps(line) + "\n")
            recent.clear()
        if run.keep_every and trainer.step % run.keep_every == 0:
            trainer.averaged().save(run.folder / f"step-{trainer.step}")
        if time.monotonic() - saved > run.save_seconds:
            _save(trainer, run.folder)
            saved = time.monotonic()

    return note


def _save(trainer: Trainer, folder: Path) -> None:
    """Write the checkpoint, the averaged weights, from which other runs can learn, and the curves."""
    trainer.save(_checkpoint_path(folder))
    trainer.averaged().save(folder / "averaged")
    draw(folder)


def _checkpoint_path(run: Path) -> Path:
    return run / "checkpoint.pt"


def _checkpoint(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CorpusError(f"{path} is missing: there is no trained run in this folder yet")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


# Draws the losses and the learning rate of a run over its steps.

NOT_LOSSES = {"step", "epoch", "hours", "minutes", "rate", "norm"}


def draw(run: Path) -> None:
    """Draw RUN/log.jsonl as RUN/curves.png."""
    from matplotlib.figure import Figure  # the import takes a second, and most processes of a run draw nothing

    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    if not rows:
        return
    figure = Figure(figsize=(9, 7))
    losses, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name in sorted({name for row in rows for name in row} - NOT_LOSSES):
        points = [row for row in rows if name in row]
        losses.plot([row["step"] for row in points], [row[name] for row in points], label=name)
    rate.plot([row["step"] for row in rows], [row["rate"] for row in rows])
    losses.set_ylabel("loss (weighted)")
    losses.legend()
    rate.set_ylabel("learning rate")
    rate.set_xlabel("step")
    partial = run / "curves.partial.png"
    figure.savefig(partial, dpi=80)
    partial.replace(run / "curves.png")


# Computes the phone and word errors of a model on a prepared set, with greedy search.


@dataclass
class Errors:
    """Sums of errors and of reference lengths."""

    phones: int = 0
    phone_errors: int = 0
    letters: int = 0
    letter_errors: int = 0
    words: int = 0
    word_errors: int = 0

    def add(self, utterance: Utterance, alignment: Alignment, phones: list[int], letters: list[int]) -> None:
        """Add one utterance: its phones without boundaries, its characters, its words."""
        boundary = units.PHONE_NUMBER[units.BOUNDARY]
        reference = [unit for unit in units.phones(alignment) if unit != boundary]
        self.phones += len(reference)
        self.phone_errors += units.errors(reference, [unit for unit in phones if unit != boundary])
        text = "".join(units.CHARACTERS[unit] for unit in letters)
        self.letters += len(utterance.text)
        self.letter_errors += units.errors(utterance.text, text)
        self.words += len(utterance.text.split())
        self.word_errors += units.errors(utterance.text.split(), text.split())

    def rates(self) -> dict[str, float]:
        """Return the phone, character and word error rates in percent."""
        return {
            "phones": 100 * self.phone_errors / max(self.phones, 1),
            "characters": 100 * self.letter_errors / max(self.letters, 1),
            "words": 100 * self.word_errors / max(self.words, 1),
        }


@torch.inference_mode()
def evaluate(
    model: AcousticNetwork, corpus: Corpus, alignments: dict[str, Alignment], step_ms: int
) -> dict[str, dict[str, float]]:
    """Return the error rates by corpus and of everything ("all"), at the step of the model for this one.

    CorpusError if it has none.
    """
    chunk = frames_together(model.description, step_ms)
    errors: dict[str, Errors] = defaultdict(Errors)
    for utterances in batches(corpus):
        longest, frame = utterances[-1].samples, model.frame_samples
        samples = torch.stack([padded(corpus, utterance, longest, frame) for utterance in utterances])
        lengths = torch.tensor([(utterance.samples + TAIL_SAMPLES) // model.frame_samples for utterance in utterances])
        left = model.description.encoder.left_frames
        emissions = model(samples.to(model.device), lengths.to(model.device), chunk, left)
        best = {head: emissions[head].argmax(-1).tolist() for head in ("phones", "characters")}
        for row, (utterance, length) in enumerate(zip(utterances, lengths.tolist(), strict=True)):
            phones, letters = (units.collapse(best[head][row][:length]) for head in ("phones", "characters"))
            for name in (utterance.corpus, "all"):
                errors[name].add(utterance, alignments[utterance.name], phones, letters)
    return {name: sums.rates() for name, sums in errors.items()}


def report(rates: dict[str, dict[str, float]]) -> str:
    """Return the error rates as a table."""
    lines = [f"{'corpus':32s}  phones  characters  words (errors in %)"]
    for name, row in rates.items():
        lines.append(f"{name:32s}  {row['phones']:6.1f}  {row['characters']:10.1f}  {row['words']:5.1f}")
    return "\n".join(lines)
