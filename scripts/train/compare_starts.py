"""Compares two starts of an acoustic model after the same steps: random weights, and the encoder of Moonshine.

    python scripts/train/compare_starts.py --work PREPARED --to FOLDER --steps 500 [--manifest STRANGERS.tsv …]

Both have the same batches, losses and plan: FOLDER/nothing and FOLDER/moonshine are their runs. Then the words of both
are judged on the second half of dev and on all of each manifest (as GIVEN/dev.tsv, beside its shards): by the likeliest
letters, and by the search of --base. You can stop it at any moment (SIGTERM, Ctrl-C) or after --minutes of training,
and the same command goes on. The tables are printed at the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.models.library import LibraryError
from workshop.acoustic.moonshine_start import reader_folder
from workshop.acoustic.training_run import Run, steps_of
from workshop.comparison.starts import (
    STARTS,
    Comparison,
    Results,
    StartJudge,
    prepared_sets,
    read_results,
    report,
    write_results,
)
from workshop.data.corpus import CorpusError
from workshop.processes import StoppedError, stop_signals


def main() -> int:
    """Train, judge, compare; returns the exit status: 0 when both are judged, 2 if there is more to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--to", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--reader", default="moonshine-tiny", help="a Moonshine that was fetched, or a folder with one")
    parser.add_argument("--pooled", type=int, default=Run.pooled, help="how many of its frames become one (2)")
    parser.add_argument("--train-convolutions", action="store_true", help="train Moonshine's convolutions, too")
    parser.add_argument("--manifest", type=Path, nargs="+", default=[], help="further sets to judge")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after these minutes of training")
    parser.add_argument("--batch-seconds", type=float, default=Run.batch_seconds)
    parser.add_argument("--processes", type=int, help="number of processes (default: one per core; one on a GPU)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--base", type=Path, default=Path("asr_repo/streaming_asr/1"), help="bundle whose search is used"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        return _compare(options)
    except (BundleError, CorpusError, LibraryError) as error:
        print(f"compare_starts: {error}", file=sys.stderr)
        return 1


def _compare(options: argparse.Namespace) -> int:
    compared = Comparison(
        options.work,
        options.to,
        reader_folder(options.reader),
        options.steps,
        options.device,
        options.processes,
        options.batch_seconds,
        options.pooled,
        frozen=not options.train_convolutions,
    )
    judge = StartJudge(options.base, prepared_sets(options.work, options.manifest, options.to / "sets"))
    stopped, tell = stop_signals(), partial(print, flush=True)
    results: dict[str, Results] = {}
    left = options.minutes
    for start in STARTS:
        folder = options.to / start
        if steps_of(folder) < options.steps and left > 0 and not stopped():
            began = time.monotonic()
            compared.run(start, left).train(stopped, tell)
            left -= (time.monotonic() - began) / 60
        if steps_of(folder) >= options.steps:
            with suppress(StoppedError):
                results[start] = judge.judge(folder / "averaged", read_results(folder), stopped)
                write_results(folder, results[start])
    if results:
        tell(report(results))
    return 0 if len(results) == len(STARTS) else 2


if __name__ == "__main__":
    sys.exit(main())
