"""Degrades recordings, each in several ways, to measure the weaknesses of the recogniser.

    python scripts/data/degrade_speech.py speech/dev.tsv --work PREPARED --to DEGRADED
    python -m streamer evaluate DEGRADED/telephone.tsv

For every way, DEGRADED gets a folder of FLAC files and a manifest (file, corpus, speaker, text). Noise and rooms come
from the prepared data. The same seed gives the same files, and all levels of noise use the same noise.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streamer.audio.recordings import AudioError
from streamer.commands.accuracy.manifest import ManifestError, read_manifest, select_utterances
from workshop.data.corpus import Corpus, CorpusError
from workshop.data.degradation import degradations, degrade


def main() -> int:
    """Degrade a manifest's recordings; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="prepared data, for its noise and rooms")
    parser.add_argument("--to", type=Path, required=True, help="folder for the degraded recordings")
    parser.add_argument("--ways", nargs="+", metavar="WAY", help="only these ways to degrade (default: all)")
    parser.add_argument("--limit", type=int, help="how many recordings, from all corpora (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        ways = degradations(Corpus(options.work, "noise"), Corpus(options.work, "rooms"))
        for name in options.ways or ():
            if name not in ways:
                raise CorpusError(f"there is no degradation {name!r}; there are {', '.join(ways)}")
        utterances = select_utterances(read_manifest(options.manifest), limit=options.limit)
        for name in options.ways or ways:
            print(degrade(utterances, ways[name], options.to, name, options.seed), flush=True)
    except (AudioError, CorpusError, ManifestError) as error:
        print(f"degrade_speech: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
