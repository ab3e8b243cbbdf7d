"""Finds texts for recordings without text. Those with a sure text are written as a folder of given speech.

    python scripts/data/find_text.py --recordings CLIPS --sentences TEXT… --dev GIVEN/dev.tsv --work WORK --output MORE
    python scripts/data/find_text.py --recordings CLIPS --surer-than 0.4 --dev GIVEN/dev.tsv --work WORK --output MORE
    python scripts/data/find_text.py --check dev --sentences TEXT… --work WORK

TEXT are text files of known sentences, with one or more sentences in each line. Every recording is recognised. The
sentences that are nearest to the recognised words are scored by the phones that the acoustic model hears. If a sentence
fits about as well as the recognised words, it is the text. Otherwise the recognised words are the text, if the search
is sure of them.

With --check, nothing is written. A prepared set whose texts are known shows how many of the surest words are wrong.
With --sentences, it also shows how often its texts are found among these sentences, and how often another one is taken.

MORE gets `train.tsv` and tar shards of two corpora: NAME_found has known sentences, and NAME_heard recognised words.
docs/how-to/training.md shows how often such texts are right.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.model_file import ModelFileError
from workshop.data.corpus import CorpusError
from workshop.labelling.checks import check_finding, check_sureness
from workshop.labelling.labelling import Sources, Thresholds, label, prepare_recordings


def main() -> int:
    """Prepare and label the recordings; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="SET", help="a prepared set with texts: show how sure words must be")
    parser.add_argument("--recordings", type=Path, help="folder of audio files, each with one utterance")
    parser.add_argument("--sentences", type=Path, nargs="+", default=[], help="text files of known sentences")
    parser.add_argument("--dev", type=Path, help="a manifest; no recording may get one of its texts")
    parser.add_argument("--work", type=Path, required=True, help="folder for the decoded recordings and emissions")
    parser.add_argument("--output", type=Path, help="folder for the labelled speech")
    parser.add_argument("--name", default="clips", help="name of the prepared set and corpora (default: clips)")
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="folder of the model")
    parser.add_argument(
        "--surer-than",
        type=float,
        default=Thresholds.heard,
        metavar="SUM",
        help=f"least sureness of recognised words that become a text (default: {Thresholds.heard})",
    )
    parser.add_argument("--beam", type=int, default=96, help="beam size of the search (default: 96)")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if not options.check and not (options.recordings and options.dev and options.output):
        parser.error("--recordings, --dev and --output are needed, or --check")
    try:
        if options.check:
            prepared = options.bundle, options.work, options.check
            print(*check_sureness(*prepared, options.beam), sep="\n")
            if options.sentences:
                print(*check_finding(*prepared, options.sentences, options.beam), sep="\n")
            return 0
        if not (options.work / f"{options.name}.tsv").is_file():
            prepare_recordings(options.recordings, options.work, options.name, options.processes)
        sources = Sources(options.bundle, options.sentences, options.dev, options.beam)
        limits, tell = Thresholds(heard=options.surer_than), partial(print, flush=True)
        label(options.recordings, options.work, options.name, options.output, sources, limits, tell)
    except (BundleError, CorpusError, ModelFileError, OSError, ValueError) as error:
        print(f"find_text: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
