"""Measures one encoder with several heads beside the undivided recogniser: latency and throughput.

    python scripts/measure/heads.py [--streams 1,8,32] [--seconds 5]

The script starts the embedded Triton with four arrangements: fused (`streaming_asr`), router (`asr_heads`), direct (the
same ensemble without the router) and scripted (one model that calls the steps). Each gets the same speech in a closed
loop. Then it starts another Triton, with one instance of the encoder and two of each head. It prints Markdown tables of
ratios to the first arrangement. Client and server share the machine, so only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import sys

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from streamer.bridge.triton import TritonError
from workshop.load.heads import FUSED, ROUTER, Measured, measure, table


def main() -> int:
    """Measure and print the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="1,8,32", help="numbers of streams")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds for each arrangement")
    options = parser.parse_args()
    try:
        streams = tuple(map(int, options.streams.split(",")))
    except ValueError:
        parser.error("give numbers of streams, such as 1,8,32")
    if not (streams and all(1 <= number <= 60 for number in streams) and 0 < options.seconds <= 60):
        parser.error("give 1 to 60 streams and up to 60 seconds")
    speech = read_audio(shipped("audio_samples") / "quilter.ogg").tobytes()
    try:
        results = measure(speech, streams, options.seconds)
        print(table(results, streams))
        _tell(results[FUSED, streams[0]])
        print("\nWith one instance of the encoder and two of each head:\n")
        print(
            table(measure(speech, streams, options.seconds, heads=2, models=(FUSED, ROUTER)), streams, (FUSED, ROUTER))
        )
    except (TritonError, OSError) as error:
        print(f"heads: {error}", file=sys.stderr)
        return 1
    return 0


def _tell(first: Measured | None) -> None:
    if first is not None:
        print(f"\nThe first figure stands for {first.latency_ms:.0f} ms and {first.speed:.1f} s of audio in a second.")


if __name__ == "__main__":
    sys.exit(main())
