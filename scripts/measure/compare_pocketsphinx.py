"""Compares a service with PocketSphinx 5 and its own models, on the same recordings.

    python scripts/measure/compare_pocketsphinx.py MANIFEST [--limit 100] [--cache FOLDER] [--engine]

`streamer evaluate` scores both with the same normalisation. The script prints the word error rates by corpus, the
relative difference in errors (with the 95 % interval of a paired bootstrap), and the CPU time per second of audio. With
--cache, the results of PocketSphinx are kept by the content of the audio, and another comparison does not compute them
again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streamer.audio.recordings import AudioError
from streamer.bridge.triton import TritonError
from streamer.client import SessionError
from streamer.commands.accuracy.manifest import ManifestError, normalise, read_manifest, select_utterances
from streamer.commands.accuracy.results import Unavailable
from streamer.commands.accuracy.word_errors import score_utterance
from streamer.commands.evaluate import add_hearing_arguments, hearing_setup, recognise_all
from workshop.comparison.pocketsphinx import comparison, heard_by_pocketsphinx


def main() -> int:
    """Compare and print; returns the exit status, which is 0 only if both recognised every recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_hearing_arguments(parser)
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="folder that keeps the results of PocketSphinx")
    parser.add_argument("--processes", type=int, default=1, help="processes of PocketSphinx (1)")
    options = parser.parse_args()
    if options.processes < 1:
        parser.error("--processes must be 1 or more")
    try:
        utterances = select_utterances(
            read_manifest(Path(options.manifest)), options.corpus, options.limit, options.half
        )
        results = list(heard_by_pocketsphinx(utterances, options.cache, options.processes))
        run = recognise_all(utterances, hearing_setup(options), options.server)
    except (ManifestError, AudioError, Unavailable, TritonError, SessionError, OSError) as error:
        print(f"compare_pocketsphinx: {error}", file=sys.stderr)
        return 1
    theirs = [
        score_utterance(utterance, normalise(each.text)) for utterance, each in zip(utterances, results, strict=True)
    ]
    ours = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    print(comparison(theirs, ours))
    audio_s = sum(each.seconds for each in results)
    print(
        f"\nCPU seconds for a second of audio: PocketSphinx {sum(each.cpu_s for each in results) / audio_s:.3f}", end=""
    )
    parts = [f", {name} {used / run.seconds:.3f}" for name, used in run.cpu.items() if run.seconds]
    print("".join(parts) + f" ({audio_s:.0f} s of audio)")
    failed = [result for result in ours if result.failure]
    for result in failed:
        print(f"compare_pocketsphinx: {result.utterance.name}: {result.failure}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
