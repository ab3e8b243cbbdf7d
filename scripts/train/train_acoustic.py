"""Trains the acoustic model, evaluates it, and writes the bundle that is shipped.

    python scripts/train/train_acoustic.py --work PREPARED --run RUN --plan-minutes 100 [--minutes 10]   train, continue
    python scripts/train/train_acoustic.py --work PREPARED --run RUN --plan-minutes 100 --start BUNDLE --crf-from 0
    python scripts/train/train_acoustic.py --work PREPARED --run RUN --plan-minutes 100 --encoder-from moonshine-tiny
    python scripts/train/train_acoustic.py --work PREPARED --run RUN --evaluate                          errors on dev
    python scripts/train/train_acoustic.py --run RUN --export asr_repo/streaming_asr/1                  write the bundle

RUN has the checkpoint, the averaged weights as a bundle (`averaged`), `log.jsonl` and `curves.png`. A run can be
stopped at any moment, and the same command continues it. The learning rate falls to zero at the end of the plan, and
rises again if the plan becomes longer. The run uses a GPU if there is one.

The phones' head first learns the labels of aligned frames, then CTC, and from --crf-from on CTC-CRF. See
docs/how-to/training.md.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.models.library import LibraryError
from workshop.acoustic.augmentation import CONDITIONS
from workshop.acoustic.growth import Growth
from workshop.acoustic.losses import GOING_ON, NEW_HEADS, Schedule
from workshop.acoustic.moonshine_start import reader_folder
from workshop.acoustic.training_run import SIZES, PhoneModel, Run, averaged_model, evaluate, report
from workshop.data.alignment import read_alignments
from workshop.data.corpus import Corpus, CorpusError
from workshop.model_steps import add_step_option
from workshop.phones.phone_ngram import ORDERS
from workshop.processes import stop_signals


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
    except (CorpusError, BundleError, LibraryError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder of prepared and aligned speech")
    parser.add_argument("--run", type=Path, help="folder of the run")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--evaluate", action="store_true", help="print the errors on dev")
    parser.add_argument("--bundle", type=Path, help="evaluate this bundle instead of the run")
    add_step_option(parser, "length of a step for --evaluate")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the averaged weights as a bundle")
    new = parser.add_argument_group("a run")
    new.add_argument("--start", type=Path, metavar="BUNDLE", help="start a new run from these weights")
    new.add_argument(
        "--encoder-from",
        metavar="READER",
        help="start a new run with new heads and the encoder of this Moonshine: a reader that was fetched, or a folder",
    )
    new.add_argument("--pooled", type=int, default=Run.pooled, help="how many of its frames become one (2)")
    new.add_argument(
        "--freeze-convolutions",
        action="store_true",
        help="with --encoder-from: its convolutions stay as they are, which is faster",
    )
    new.add_argument(
        "--grow",
        type=int,
        nargs=2,
        metavar=("TIMES", "NUMBERS"),
        help="make the model of --start larger: TIMES as many blocks, and feed-forward networks of NUMBERS",
    )
    new.add_argument("--size", choices=SIZES, default="small")
    new.add_argument("--seed", type=int, default=1)
    new.add_argument("--processes", type=int, help="number of processes (default: one per core; one on a GPU)")
    new.add_argument("--batch-seconds", type=float, default=Run.batch_seconds)
    new.add_argument(
        "--minutes", type=float, default=1e6, help="stop after these minutes (default: at the end of the plan)"
    )
    new.add_argument(
        "--save-every", type=float, default=Run.save_seconds, metavar="SECONDS", help="between checkpoints (240)"
    )
    new.add_argument("--keep-every", type=int, metavar="STEPS", help="keep the averaged weights in RUN/step-N")
    plan = parser.add_argument_group("its plan")
    plan.add_argument("--plan-minutes", type=float, help="training time after which the learning rate is zero")
    plan.add_argument("--plan-steps", type=int, help="the same, as a number of steps")
    plan.add_argument("--rate", type=float, help="the highest learning rate (default: 2.5e-3, with --start 1.25e-3)")
    plan.add_argument(
        "--body-rate",
        type=float,
        metavar="SHARE",
        help="the rate of all weights but the heads, as a share (default: 1, with --encoder-from 0.4)",
    )
    plan.add_argument(
        "--fall", type=float, default=Schedule.fall, help="share of the plan in which the learning rate falls"
    )
    plan.add_argument(
        "--aligned-steps",
        type=int,
        help="steps that learn labels of aligned frames, before CTC (default: 200; none with --start)",
    )
    plan.add_argument(
        "--crf-from", type=int, metavar="STEP", help="the phones' head learns with CTC-CRF from this step on"
    )
    plan.add_argument(
        "--errors-from", type=int, metavar="STEP", help="expected wrong words are a loss from this step on"
    )
    plan.add_argument("--errors-weight", type=float, default=Schedule.errors_weight, help="the weight of that loss")
    plan.add_argument(
        "--conditions", choices=CONDITIONS, default=Run.conditions, help="how strongly the audio is changed"
    )
    plan.add_argument(
        "--usual-last",
        type=float,
        default=Schedule.usual_last,
        metavar="SHARE",
        help="share of the plan, at its end, with usual conditions",
    )
    plan.add_argument(
        "--dropout",
        type=float,
        default=Run.dropout,
        metavar="SHARE",
        help="the share of the numbers that parts of the encoder leave out, against learning by heart (0.1)",
    )
    plan.add_argument(
        "--repeat",
        type=_repeated,
        nargs="+",
        default=[],
        metavar="CORPUS=TIMES",
        help="how often an epoch has the recordings of a corpus (default: once)",
    )
    plan.add_argument(
        "--consistency",
        type=float,
        default=Schedule.consistency,
        metavar="WEIGHT",
        help="two masked views of each batch must agree, with this weight (0.2; a step takes twice as long)",
    )
    plan.add_argument(
        "--teacher",
        type=Path,
        metavar="BUNDLE",
        help="a model to learn from, beside the transcripts; it may be RUN/averaged of a run that is still going on",
    )
    plan.add_argument(
        "--taught", type=float, default=Run.taught, metavar="WEIGHT", help="the weight of the teacher's loss"
    )
    crf = parser.add_argument_group("CTC-CRF")
    crf.add_argument(
        "--ctc-share", type=float, default=Schedule.ctc_share, help="the share of plain CTC beside CTC-CRF"
    )
    crf.add_argument("--order", type=int, choices=ORDERS, default=PhoneModel.order, help="order of the phone n-gram")
    crf.add_argument(
        "--phone-text",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="written text whose phones are counted too, a paragraph a line (default: only the transcripts)",
    )
    crf.add_argument("--free-boundary", action="store_true", help="leave the boundary after words out of the n-gram")
    crf.add_argument(
        "--crf-middle", action="store_true", help="the head in the middle of the encoder also learns with CTC-CRF"
    )
    return parser


def _repeated(text: str) -> tuple[str, int]:
    corpus, _, times = text.rpartition("=")
    if not corpus or not times.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a corpus and a number, like dictation=6")
    return corpus, int(times)


def _train(options: argparse.Namespace) -> None:
    if not (options.work and options.run and (options.plan_minutes or options.plan_steps)):
        raise CorpusError("training needs --work, --run and --plan-minutes or --plan-steps")
    if options.start and options.encoder_from:
        raise CorpusError("a run starts from --start or from --encoder-from, not from both")
    if options.grow and not options.start:
        raise CorpusError("--grow needs --start: the model that becomes larger")
    run = Run(
        options.work,
        options.run,
        _schedule(options),
        options.minutes,
        size=options.size,
        seed=options.seed,
        batch_seconds=options.batch_seconds,
        start=options.start,
        encoder_from=reader_folder(options.encoder_from) if options.encoder_from else None,
        pooled=options.pooled,
        frozen_stem=options.freeze_convolutions,
        growth=Growth(*options.grow) if options.grow else None,
        teacher=options.teacher,
        taught=options.taught,
        device=options.device,
        processes=options.processes,
        phone_model=PhoneModel(options.order, options.free_boundary, options.crf_middle, tuple(options.phone_text)),
        conditions=options.conditions,
        dropout=options.dropout,
        repeated=dict(options.repeat),
        keep_every=options.keep_every,
        save_seconds=options.save_every,
    )
    run.train(stop_signals(), partial(print, flush=True))


def _schedule(options: argparse.Namespace) -> Schedule:
    """Return the plan. A run that starts from a bundle needs no warm start, and a lower learning rate."""
    usual = GOING_ON if options.start else NEW_HEADS if options.encoder_from else Schedule()
    names = ("rate", "body_rate", "aligned_steps")
    changes = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return replace(
        usual,
        minutes=options.plan_minutes or 0.0,
        steps=options.plan_steps,
        fall=options.fall,
        crf_from=options.crf_from,
        ctc_share=options.ctc_share,
        errors_from=options.errors_from,
        errors_weight=options.errors_weight,
        consistency=options.consistency,
        usual_last=options.usual_last,
        **changes,
    )


def _evaluate(options: argparse.Namespace) -> None:
    if not options.work or not (options.run or options.bundle):
        raise CorpusError("--evaluate needs --work and --run or --bundle")
    model = AcousticNetwork.load(options.bundle) if options.bundle else _trained(options.run)
    corpus, alignments = Corpus(options.work, "dev"), read_alignments(options.work, "dev")
    print(report(evaluate(model.to(options.device), corpus, alignments, options.step_ms)))


def _trained(run: Path | None) -> AcousticNetwork:
    if run is None:
        raise CorpusError("--export needs --run")
    return averaged_model(run)


if __name__ == "__main__":
    sys.exit(main())
