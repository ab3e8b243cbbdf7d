"""Fits how a reader and the recogniser are combined and the confidence of their words, and says what both are worth.

    python scripts/train/fit_reader.py MANIFEST [--reader NAME] [--bundle BUNDLE] [--limit N] [--cache DIR] [--write]

MANIFEST is a table as for `streamer evaluate`. Its speakers are divided into two halves. The tables show each half with
weights that were fitted on the other one, then both, and at last all of it with the weights of all. --write writes
these into the reader.json of the bundle, and the confidence into its calibration.json, which scripts/train/calibrate.py
makes first. --cache keeps what was read, so that the command goes on after a stop. Run this after every change of the
weights of the recogniser.
"""

from __future__ import annotations

import argparse
import random
import sys
from functools import partial
from itertools import zip_longest
from pathlib import Path

from streamer.base.limits import READER, STEP_MS
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import Utterance, read_manifest
from streamer.engine.text.calibration import CALIBRATION_FILE
from streamer.models.readers import find_reader
from workshop.search.reader_fit import (
    calibrated,
    cross_fitted,
    fitted_calibration,
    fitted_mixture,
    plain_pass,
    read_all,
    table,
    write_mixture,
)


def main() -> int:
    """Fit, judge, and perhaps write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--reader", default="moonshine-tiny", help="the name or the folder of the reader (%(default)s)")
    parser.add_argument("--bundle", type=Path, default=asr_repository() / "streaming_asr" / "1")
    parser.add_argument("--limit", type=int, help="at most this many utterances of each corpus")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep there what was read with these weights")
    parser.add_argument("--write", action="store_true", help="write the weights and the confidence into the bundle")
    options = parser.parse_args()
    reader = Path(options.reader) if Path(options.reader).is_dir() else find_reader(options.reader)
    if reader is None:
        parser.error(f"{options.reader} is not on this machine: `streamer models get {options.reader}` fetches it")
    chosen = _some(options.manifest, options.limit)
    tell = partial(print, flush=True)
    read = read_all(chosen, options.bundle, reader, tell, options.cache)
    crossed = cross_fitted(read)
    for part, mixture in crossed.items():
        judged = [one for one in read if one.half == part]
        tell(
            f"\nOn the {part} half, with the weights of the other one, {mixture}:\n" + "\n".join(table(judged, crossed))
        )
    tell("\nBoth halves, each with the weights of the other one:\n" + "\n".join(table(read, crossed)))
    mixture = fitted_mixture(read)
    tell(f"\nThe weights of all, {mixture}:\n" + "\n".join(table(read, dict.fromkeys(crossed, mixture))))
    calibration = fitted_calibration(read, plain_pass(options.bundle, mixture), calibrated(options.bundle))
    tell(f"\nThe confidence of all: {calibration.fit(STEP_MS, READER).evidence}")
    if options.write:
        write_mixture(options.bundle, read, mixture)
        calibration.save(options.bundle / CALIBRATION_FILE)
    return 0


def _some(manifest: Path, limit: int | None) -> list[Utterance]:
    """Return the utterances, or as many of each corpus as wanted, chosen at random but always the same.

    The corpora take turns, so that what is kept after a stop has some of each.
    """
    utterances = list(read_manifest(manifest))
    random.Random(5).shuffle(utterances)
    by_corpus = [
        [one for one in utterances if one.corpus == corpus][:limit]
        for corpus in sorted({one.corpus for one in utterances})
    ]
    return [one for row in zip_longest(*by_corpus) for one in row if one is not None]


if __name__ == "__main__":
    sys.exit(main())
