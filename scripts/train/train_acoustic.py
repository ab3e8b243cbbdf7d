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
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from streamer.engine.models.acoustic_model import AcousticModel, BundleError
from streamer.training.acoustic.error_rates import evaluate, report
from streamer.training.acoustic.training_run import SIZES, STEPS_MS, Run, averaged_model
from streamer.training.data.alignment import read_alignments
from streamer.training.data.corpus import Corpus, CorpusError


def main() -> int:
    """Do what the command line says; returns the exit status."""
    options = _parser().parse_args()
    try:
        if options.export:
            _trained(options.run).save(options.export)
            print(f"wrote {options.export}")
        elif options.evaluate:
            _evaluate(options)
        else:
            _train(options)
    except (CorpusError, BundleError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder of prepared and aligned speech")
    parser.add_argument("--run", type=Path, help="folder of the run")
    parser.add_argument("--plan-minutes", type=float, help="training time after which the learning rate is zero")
    parser.add_argument("--minutes", type=float, default=1e6, help="length of this piece (default: to the end)")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--aligned-steps", type=int, default=Run.aligned_steps,
        help="steps of a new run that learn the aligned phones frame by frame before CTC (0: CTC from the start)",
    )  # fmt: skip
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, help="that share the work (default: one a core; one on a GPU)")
    parser.add_argument("--batch-seconds", type=float, default=Run.batch_seconds)
    parser.add_argument("--start-from", type=Path, metavar="BUNDLE", help="start a new run from these weights")
    parser.add_argument("--evaluate", action="store_true", help="print the errors on dev")
    parser.add_argument("--bundle", type=Path, help="evaluate this bundle instead of the run")
    parser.add_argument("--step-ms", type=int, choices=STEPS_MS, default=320, help="step length for --evaluate")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the averaged weights as a bundle")
    return parser


def _train(options: argparse.Namespace) -> None:
    if not (options.work and options.run and options.plan_minutes):
        raise CorpusError("training needs --work, --run and --plan-minutes")
    run = Run(
        options.work,
        options.run,
        options.plan_minutes,
        options.minutes,
        size=options.size,
        seed=options.seed,
        aligned_steps=options.aligned_steps,
        batch_seconds=options.batch_seconds,
        start_from=options.start_from,
        device=options.device,
        processes=options.processes,
    )
    run.train(_stop_signals(), partial(print, flush=True))


def _evaluate(options: argparse.Namespace) -> None:
    if not options.work or not (options.run or options.bundle):
        raise CorpusError("--evaluate needs --work and --run or --bundle")
    model = AcousticModel.load(options.bundle) if options.bundle else _trained(options.run)
    corpus, alignments = Corpus(options.work, "dev"), read_alignments(options.work, "dev")
    print(report(evaluate(model.to(options.device), corpus, alignments, options.step_ms)))


def _trained(run: Path | None) -> AcousticModel:
    if run is None:
        raise CorpusError("--export needs --run")
    return averaged_model(run)


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
