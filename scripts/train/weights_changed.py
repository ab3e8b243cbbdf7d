"""Does everything that new weights need: fits, measures, and writes the figures into the documents.

    python scripts/train/weights_changed.py --from RUN/averaged --work PREPARED --speech GIVEN --to FOLDER
    python scripts/train/weights_changed.py --work PREPARED --speech GIVEN --to FOLDER --list
    python scripts/train/weights_changed.py --work PREPARED --speech GIVEN --to FOLDER --only calibration

PREPARED needs dev, aligned by PocketSphinx. FOLDER gets the output and the files of the steps. A step is not repeated
if its files have not changed, so the same command continues after a stop. Each step is a command of its own; --list
prints the commands, with the minutes that they take. In the model card and the documents, the tables between
`<!-- measured: … -->` and `<!-- end -->` are written again. Lines outside the tables that have an old figure are
reported, and must be changed by hand. With --heldout, the folder that scripts/data/held_out_speech.py makes, the errors
of the held-out set are measured too.
"""

from __future__ import annotations

import argparse
import signal
import sys
from functools import partial
from pathlib import Path

from streamer.engine.acoustics.bundle_files import BundleError
from workshop.data.corpus import CorpusError
from workshop.release.figure_tables import blocks, rewrite
from workshop.release.release_steps import ReleasePlaces, StepRunner, release_steps, take_over, write_frame_width

# The bundle that `streamer evaluate --engine` uses.
BUNDLE = Path("asr_repo/streaming_asr/1")


def main() -> int:
    """Do the steps; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--from", type=Path, dest="source", metavar="FOLDER", help="folder with the new parts of the bundle"
    )
    parser.add_argument("--work", type=Path, help="folder of prepared speech")
    parser.add_argument("--speech", type=Path, help="the given speech, with dev.tsv")
    parser.add_argument("--text", type=Path, help="folder of punctuated text, to measure marks and capitals")
    parser.add_argument("--heldout", type=Path, help="folder of the held-out set, to measure it beside dev")
    parser.add_argument("--to", type=Path, required=True, help="folder for the output and the files of the steps")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="run these steps, even if they were done")
    parser.add_argument("--list", action="store_true", help="print the steps")
    parser.add_argument("--documents", action="store_true", help="only write the tables")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("weights_changed: stopped"))
    try:
        if options.documents:
            documents = [Path("README.md"), *sorted(Path("docs").rglob("*.md")), *Path("asr_repo").rglob("*.md")]
            rewrite(documents, blocks(options.to), print)
        else:
            _do(options)
    except (BundleError, CorpusError) as error:
        print(f"weights_changed: {error}", file=sys.stderr)
        return 1
    return 0


def _do(options: argparse.Namespace) -> None:
    if not (options.work and options.speech):
        raise CorpusError("the steps need --work and --speech")
    tell = partial(print, flush=True)
    runner = StepRunner(BUNDLE, options.to, tell)
    places = ReleasePlaces(BUNDLE, options.work, options.speech, options.to, options.text, options.heldout)
    steps = release_steps(places)
    if options.list:
        for step in steps:
            done = "done" if runner.done(step) else f"{step.minutes:g} min"
            print(f"{step.name:12s} {done:>8s}  {step.says}\n{'':12s} {' '.join(step.command)}")
        return
    if options.source:
        take_over(options.source, BUNDLE, tell)
        write_frame_width(BUNDLE, tell)
    if options.only:
        unknown = set(options.only) - {step.name for step in steps}
        if unknown:
            raise CorpusError(f"there is no step {min(unknown)!r}; there are {', '.join(step.name for step in steps)}")
        runner.run([step for step in steps if step.name in options.only], again=True)
    else:
        runner.run(steps)


if __name__ == "__main__":
    sys.exit(main())
