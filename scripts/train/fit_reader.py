"""Fits the gate of a reader and the confidence of its words, and says what both are worth.

    python scripts/train/fit_reader.py MANIFEST [--reader FOLDER] [--bundle BUNDLE] [--limit N] [--write]

MANIFEST is a table as for `streamer evaluate`. Half of its speakers are for fitting, and the table shows the other
half. The weights of the gate belong into streamer/engine/reader/gate.py. --write writes the confidence into the
calibration.json of the bundle, which scripts/train/calibrate.py makes first. Run this after every change of the
weights.
"""

from __future__ import annotations

import argparse
import random
import sys
from functools import partial
from pathlib import Path

from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import Utterance, read_manifest
from streamer.engine.text.calibration import CALIBRATION_FILE
from streamer.models.readers import find_reader
from workshop.search.reader_fit import calibrated, fitted_calibration, fitted_gate, read_all, table


def main() -> int:
    """Fit, judge, and perhaps write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--reader", type=Path, help="the folder of the reader (the small one of this machine)")
    parser.add_argument("--bundle", type=Path, default=asr_repository() / "streaming_asr" / "1")
    parser.add_argument("--limit", type=int, help="at most this many utterances of each corpus")
    parser.add_argument("--write", action="store_true", help="write the confidence into the bundle")
    options = parser.parse_args()
    reader = options.reader or find_reader("moonshine-tiny")
    if reader is None:
        parser.error("there is no reader on this machine: `streamer models get moonshine-tiny` fetches it")
    chosen = _some(options.manifest, options.limit)
    tell = partial(print, flush=True)
    read = read_all(chosen, options.bundle, reader, tell)
    fitting, judging = ([one for one in read if one.is_for_fitting is wanted] for wanted in (True, False))
    gate = fitted_gate(fitting)
    tell(f"\nThe gate of one half of the speakers: {gate}\nOn the other half:\n" + "\n".join(table(judging, gate)))
    gate = fitted_gate(read)
    tell(f"\nThe gate of all: {gate}\n" + "\n".join(table(read, gate)))
    calibration = fitted_calibration(read, calibrated(options.bundle))
    tell(f"\nThe confidence of all: {calibration.fits['reader'][320].evidence}")
    if options.write:
        calibration.save(options.bundle / CALIBRATION_FILE)
    return 0


def _some(manifest: Path, limit: int | None) -> list[Utterance]:
    """Return the utterances, or as many of each corpus as wanted, chosen at random but always the same."""
    utterances = list(read_manifest(manifest))
    if limit is None:
        return utterances
    random.Random(5).shuffle(utterances)
    corpora = sorted({utterance.corpus for utterance in utterances})
    return [one for corpus in corpora for one in [each for each in utterances if each.corpus == corpus][:limit]]


if __name__ == "__main__":
    sys.exit(main())
