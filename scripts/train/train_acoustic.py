"""Train the acoustic model, judge it, and write the bundle that is shipped.

    python scripts/train/train_acoustic.py --work PREPARED --run RUN --plan-minutes 100 [--minutes 10]   train, or go on
    python scripts/train/train_acoustic.py --work PREPARED --run RUN --evaluate                          errors on dev
    python scripts/train/train_acoustic.py --run RUN --export asr_repo/streaming_asr/1                  write the bundle

RUN holds the checkpoint, `log.jsonl` and `curves.png`. A run can be stopped at any moment and goes on when it is
started again; the learning rate falls to zero at the end of the planned minutes, and rises again if more are planned.
It runs on a GPU where there is one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from streamer.engine.models.acoustic_model import AcousticModel, BundleError, ModelDescription
from streamer.engine.models.encoder import CtcHead, EncoderConfig
from streamer.training.acoustic import units
from streamer.training.acoustic.augment import Augmentation
from streamer.training.acoustic.batches import Batches, Recipe
from streamer.training.acoustic.curves import draw
from streamer.training.acoustic.scoring import evaluate, report
from streamer.training.acoustic.team import Team
from streamer.training.acoustic.trainer import Schedule, Trainer
from streamer.training.data.alignment import read_alignments
from streamer.training.data.corpus import Corpus, CorpusError

SIZES = {
    "small": {"width": 192, "layers": 8, "heads": 4, "feedforward": 576},
    "base": {"width": 256, "layers": 12, "heads": 4, "feedforward": 1024},
}
STEPS_MS = (160, 320, 640)
CHECKPOINT_SECONDS = 240
LOG_STEPS = 20


def main() -> int:
    """Do what the command line says; returns the exit status."""
    options = _parser().parse_args()
    try:
        if options.export:
            _load_average(options.run).save(options.export)
            print(f"wrote {options.export}")
        elif options.evaluate:
            _evaluate(options)
        else:
            _train(options)
    except (CorpusError, BundleError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    return 0


def describe(size: str) -> ModelDescription:
    """The model of a named size, with its heads."""
    shape = SIZES[size]
    names = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS, "phones_middle": units.PHONE_UNITS}
    layers = shape["layers"]
    outputs = tuple(
        CtcHead(head, layers // 2 if head.endswith("_middle") else layers, len(found)) for head, found in names.items()
    )
    return ModelDescription("streamer-en-1", EncoderConfig(outputs=outputs, **shape), names, STEPS_MS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder of prepared and aligned speech")
    parser.add_argument("--run", type=Path, help="folder of the run")
    parser.add_argument("--plan-minutes", type=float, help="training time after which the learning rate is zero")
    parser.add_argument("--minutes", type=float, default=1e6, help="length of this piece (default: to the end)")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--aligned-steps", type=int, default=Schedule.aligned_steps,
        help="steps of a new run that learn the aligned phones frame by frame before CTC (0: CTC from the start)",
    )  # fmt: skip
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, help="that share the work (default: one a core; one on a GPU)")
    parser.add_argument("--batch-seconds", type=float, default=Recipe.seconds)
    parser.add_argument("--start-from", type=Path, metavar="BUNDLE", help="start a new run from these weights")
    parser.add_argument("--evaluate", action="store_true", help="print the errors on dev")
    parser.add_argument("--bundle", type=Path, help="evaluate this bundle instead of the run")
    parser.add_argument("--step-ms", type=int, choices=STEPS_MS, default=320, help="step length for --evaluate")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the averaged weights as a bundle")
    return parser


def _train(options: argparse.Namespace) -> None:
    if not (options.work and options.run and options.plan_minutes):
        raise CorpusError("training needs --work, --run and --plan-minutes")
    stopped = _stop_signals()
    size = _processes(options)
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "team"
        team = Team(0, size, meeting)
        trainer = _trainer(options, team)
        spawn = multiprocessing.get_context("spawn")
        others = [
            spawn.Process(target=_member, args=(options, rank, size, meeting), daemon=True) for rank in range(1, size)
        ]
        for process in others:
            process.start()
        team.join()
        _lead(options, trainer, stopped)
        team.leave()
        for process in others:
            process.join(timeout=60)


def _processes(options: argparse.Namespace) -> int:
    if options.processes is None:
        return 1 if options.device.startswith("cuda") else os.cpu_count() or 1
    if options.processes < 1:
        raise CorpusError("--processes must be 1 or more")
    return int(options.processes)


def _member(options: argparse.Namespace, rank: int, size: int, meeting: Path) -> None:
    # It stops when the first process says so, and fails when that one is gone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    team = Team(rank, size, meeting)
    trainer = _trainer(options, team)
    team.join()
    trainer.train(options.minutes, lambda _: None, lambda: False)
    team.leave()


def _lead(options: argparse.Namespace, trainer: Trainer, stopped: Callable[[], bool]) -> None:
    """Train in the process that also writes."""
    path = _checkpoint_path(options.run)
    options.run.mkdir(parents=True, exist_ok=True)
    if trainer.step:
        print(f"going on at step {trainer.step}, minute {trainer.trained_seconds / 60:.1f}")
    weights = sum(weight.numel() for weight in trainer.model.parameters())
    print(f"{weights / 1e6:.1f} M weights, {trainer.team.size} process(es) on {options.device}", flush=True)
    with (options.run / "log.jsonl").open("a", buffering=1, encoding="utf-8") as log:
        trainer.train(options.minutes, _notes(trainer, path, log.write), stopped)
    trainer.save(path)
    draw(options.run)
    print(f"stopped at step {trainer.step}, {100 * trainer.progress:.0f} % of the plan")


def _trainer(options: argparse.Namespace, team: Team) -> Trainer:
    """A run's trainer, at the place where it was left."""
    if options.device == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    corpus, alignments = Corpus(options.work, "train"), read_alignments(options.work, "train")
    synthetic = Corpus(options.work, "synthetic") if (options.work / "synthetic.tsv").exists() else None
    if synthetic:
        alignments |= read_alignments(options.work, "synthetic")
    batches = Batches(corpus, alignments, options.seed, Recipe(seconds=options.batch_seconds), device, synthetic)
    augmentation = Augmentation(Corpus(options.work, "noise"), Corpus(options.work, "rooms"), device)
    path = _checkpoint_path(options.run)
    state = _checkpoint(path) if path.exists() else None
    schedule = Schedule(options.plan_minutes, aligned_steps=options.aligned_steps)
    trainer = Trainer(
        _model(options, state).to(device), batches, augmentation, schedule, options.seed,
        _precision(device), team,
    )  # fmt: skip
    if state:
        trainer.load(state)
    elif not options.start_from:
        trainer.measure_features()
    return trainer


def _model(options: argparse.Namespace, state: dict[str, Any] | None) -> AcousticModel:
    if state:
        return AcousticModel(ModelDescription.from_json(json.loads(state["description"])))
    if options.start_from:
        return AcousticModel.load(options.start_from).requires_grad_(True)
    return AcousticModel(describe(options.size))


def _notes(trainer: Trainer, path: Path, write: Callable[[str], object]) -> Callable[[dict[str, float]], None]:
    """Log every few steps, keep a checkpoint every few minutes."""
    sums: dict[str, float] = {}
    saved = time.monotonic()

    def note(figures: dict[str, float]) -> None:
        nonlocal saved
        for name, value in figures.items():
            sums[name] = sums.get(name, 0.0) + value / LOG_STEPS
        if trainer.step % LOG_STEPS == 0:
            exact = {name: figures[name] for name in ("step", "epoch", "hours", "minutes", "rate")}
            line = {name: round(value, 5) for name, value in {**sums, **exact}.items() if name != "chunk"}
            write(json.dumps(line) + "\n")
            sums.clear()
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            trainer.save(path)
            draw(path.parent)
            saved = time.monotonic()

    return note


def _evaluate(options: argparse.Namespace) -> None:
    if not options.work or not (options.run or options.bundle):
        raise CorpusError("--evaluate needs --work and --run or --bundle")
    model = AcousticModel.load(options.bundle) if options.bundle else _load_average(options.run)
    corpus, alignments = Corpus(options.work, "dev"), read_alignments(options.work, "dev")
    print(report(evaluate(model.to(options.device), corpus, alignments, options.step_ms)))


def _load_average(run: Path | None) -> AcousticModel:
    if run is None:
        raise CorpusError("--export needs --run")
    state = _checkpoint(_checkpoint_path(run))
    model = AcousticModel(ModelDescription.from_json(json.loads(state["description"])))
    model.load_state_dict(state["average"])
    return model.eval().requires_grad_(False)


def _checkpoint_path(run: Path) -> Path:
    return run / "checkpoint.pt"


def _checkpoint(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CorpusError(f"{path} is missing: nothing was trained there yet")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _precision(device: torch.device) -> torch.dtype:
    """bfloat16 where the machine computes in it, otherwise float32."""
    fast = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if fast else torch.float32


def _stop_signals() -> Callable[[], bool]:
    """Whether the process was asked to stop; the run is then saved first."""
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    return lambda: asked


if __name__ == "__main__":
    sys.exit(main())
