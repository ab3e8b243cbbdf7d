"""Measures how well voices are told apart, in conversations made from recordings of single speakers.

    python scripts/measure/speakers.py --manifest speech/dev.tsv [--corpora NAME …] [--part second] [--json FILE]

A manifest is the table that `streamer evaluate` reads, with a column `speaker`. For each number of voices from 2 to 5,
conversations of 90 s are made: pauses of 0.2 to 2 s, some overlap, voices of different levels. The seeds are fixed.
They are heard as a live session hears them, and scored by pyannote.metrics, which is not ours: it is in no part of the
project, so it is installed by hand (`pip install pyannote.metrics`).
`--beside` measures something else in the same conversations: `moonshine`, the pipeline of moonshine-voice, or
`resemblyzer`, our clustering with prints of resemblyzer 0.1.4 (installed by hand, too), for which the number of voices
must be given, because the limits in the code are not for them.
`--part` takes the speakers of one half: parameters were chosen on the first half of other manifests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from streamer.commands.accuracy.manifest import HALVES, ManifestError, half, read_manifest
from streamer.engine.speakers.networks import VoiceNetworks
from streamer.models.library import LibraryError
from streamer.models.speaker_networks import REQUIREMENT, find_speaker_networks, read_speaker_networks
from workshop.speakers.conversations import Conversation, make_conversation, voices_of
from workshop.speakers.measurement import Figures, measure, measure_other, pyannote_scorer
from workshop.speakers.others import ResemblyzerNetworks, moonshine_turns


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path, required=True, help="recordings with their speakers")
    parser.add_argument("--corpora", nargs="*", default=[], help="only recordings of these corpora")
    parser.add_argument("--part", choices=HALVES, help="only speakers of this half")
    parser.add_argument("--fewest", type=int, default=15, help="recordings that a speaker must have (15)")
    parser.add_argument("--voices", type=int, nargs="*", default=[2, 3, 4, 5], help="numbers of voices (2 3 4 5)")
    parser.add_argument("--each", type=int, default=5, help="conversations for each number of voices (5)")
    parser.add_argument("--seconds", type=float, default=90.0, help="the length of a conversation (90)")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--beside", choices=("moonshine", "resemblyzer"), help="measure this in place of ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    try:
        scorer = pyannote_scorer()
        utterances = [
            each for each in read_manifest(options.manifest) if not options.corpora or each.corpus in options.corpora
        ]
        voices = {
            name: own
            for name, own in voices_of(utterances, options.fewest).items()
            if options.part in (None, half(name))
        }
        library = find_speaker_networks()
        if library is None:
            raise LibraryError(f"there are no networks of speakers: install {REQUIREMENT}")
        kind = ResemblyzerNetworks if options.beside == "resemblyzer" else VoiceNetworks
        networks = kind(read_speaker_networks(library))
    except ImportError as error:
        print(f"speakers: the package of {error.name} is missing: pip install pyannote.metrics", file=sys.stderr)
        return 1
    except (ManifestError, LibraryError) as error:
        print(f"speakers: {error}", file=sys.stderr)
        return 1

    def conversations(count: int) -> Iterator[Conversation]:
        for seed in range(options.first_seed, options.first_seed + options.each):
            yield make_conversation(voices, count, options.seconds, seed)

    print(f"{len(voices)} speakers")
    rows: dict[str, list[Figures]] = {}
    for count in options.voices:
        if count <= len(voices):
            name = f"{count} voices"
            if options.beside == "moonshine":
                rows[name] = [measure_other("Moonshine", moonshine_turns, conversations(count), scorer)]
            else:
                rows[name] = measure(networks, conversations(count), scorer)
            _print(f"{count} voices", rows[f"{count} voices"])
    if options.json:
        content = {name: [asdict(row) for row in own] for name, own in rows.items()}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def _print(name: str, rows: list[Figures]) -> None:
    for row in rows:
        shares = (
            f"{row.error:6.1%} = {row.missed:.1%} missed + {row.invented:.1%} invented + {row.confused:.1%} confused"
        )
        count = (
            f"number right in {row.right_count} of {row.conversations} ({row.too_many} too many, {row.too_few} too few)"
        )
        print(f"{name}, {row.name:26} {shares}, {count}, {row.cpu_s:.3f} CPU s a second", flush=True)


if __name__ == "__main__":
    sys.exit(main())
