"""Compares ways to train: with the same number of steps and the same first weights, each with several seeds.

    python scripts/train/compare_training.py --work PREPARED --start BUNDLE --to FOLDER --steps 600 [--seeds 1 2]
    python scripts/train/compare_training.py --list

Every run has a folder FOLDER/SETTING-SEED. The comparison can be stopped at any moment (SIGTERM, Ctrl-C), and the same
command continues it. Each run is evaluated on the second half of dev with the search of --base. First, the search's
weights are tuned on a part of the first half. The tuning takes most of the time of an evaluation; --untuned leaves it
out. The table is printed at the end.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch

from streamer.engine.acoustics.bundle_files import BundleError
from workshop.comparison.trainings import BASELINE, Judge, chosen, comparison, read_judged, settings, write_judged
from workshop.data.corpus import CorpusError
from workshop.processes import StoppedError, stop_signals


def main() -> int:
    """Train, judge, compare; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder of prepared and aligned speech")
    parser.add_argument("--start", type=Path, metavar="BUNDLE", help="the weights that all runs start from")
    parser.add_argument("--to", type=Path, help="folder for the runs")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", metavar="SETTING", help="only these (default: all but 4-gram)")
    parser.add_argument(
        "--phone-text", type=Path, nargs="+", default=[], metavar="FILE", help="the text of the setting written-text"
    )
    parser.add_argument("--processes", type=int, help="number of processes (default: one per core)")
    parser.add_argument(
        "--base", type=Path, default=Path("asr_repo/streaming_asr/1"), help="bundle whose search is used"
    )
    parser.add_argument("--untuned", action="store_true", help="evaluate with the search of --base as it is")
    parser.add_argument("--list", action="store_true", help="print the settings")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        if options.list:
            print("\n".join(f"{name:16s} {setting.says}" for name, setting in settings([Path()]).items()))
        else:
            _compare(options)
    except (BundleError, CorpusError) as error:
        print(f"compare_training: {error}", file=sys.stderr)
        return 1
    return 0


def _compare(options: argparse.Namespace) -> None:
    if not (options.work and options.start and options.to):
        raise CorpusError("a comparison needs --work, --start and --to")
    stopped, tell = stop_signals(), partial(print, flush=True)
    judge = Judge(options.base, options.work, not options.untuned)
    results = {}
    among = settings(options.phone_text)
    for name, seed in chosen(options.only, options.seeds, among):
        folder = options.to / f"{name}-{seed}"
        judged = read_judged(folder)
        if judged is None and not stopped():
            tell(f"{folder.name}: {among[name].says}")
            run = among[name].run(options.work, folder, options.start, options.steps, seed, options.processes)
            run.train(stopped, tell)
            with suppress(StoppedError):
                judged = judge.judge(folder / "averaged", stopped, tell)
                write_judged(folder, judged)
        if judged is not None:
            results[name, seed] = judged
    if results:
        tell(comparison(results, BASELINE))


if __name__ == "__main__":
    sys.exit(main())
