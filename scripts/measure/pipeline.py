"""Measures how many streams a process carries if it searches one batch while the networks compute another one.

    python scripts/measure/pipeline.py [--network-ms 3,10] [--streams 64] [--steps 30] [--rounds 3] [--threads N]
                                       [--switch-ms 0.1] [--bundle FOLDER]

Without a GPU, it says what a pipeline brings beside one. First the networks compute the steps of all streams on the
CPU. The rows `3 ms` and so on then play a GPU: the networks give what they have computed, after this time, in which the
processors have nothing to do. In the rows `computed` they compute as always, on the processors. A batch has half of the
streams, and the other half is due meanwhile. `live` is how many streams could be computed as fast as people speak. The
rows take turns, and each figure is the median of the rounds. All streams must have the same words in all rows.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from streamer.base.machine import processors
from streamer.base.package import shipped
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from workshop.gpu.pipeline import STEP_MS, Networks, Streams


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network-ms", type=lambda text: list(map(float, text.split(","))), default=[3.0, 10.0])
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=processors(), help="that divide a search (the processors)")
    parser.add_argument(
        "--switch-ms", type=float, default=0.1, help="after which another thread gets the interpreter (as in a service)"
    )
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    options = parser.parse_args()
    sys.setswitchinterval(options.switch_ms / 1000)
    try:
        recognisers = [
            load_recogniser(options.bundle, slots=options.streams, threads=options.threads, pipelined=pipelined)
            for pipelined in (False, True)
        ]
    except BundleError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 1
    networks = [Networks(recogniser.model) for recogniser in recognisers]
    streams = [Streams(recogniser, options.streams, options.steps) for recogniser in recognisers]
    [(_, words), (_, same)] = [each.compute(1) for each in streams]  # also to know what is replayed
    found: dict[float | None, list[list[float]]] = {ms: [[], []] for ms in (None, *options.network_ms)}
    spoken_s = options.streams * options.steps * STEP_MS / 1000
    different = words != same
    for _ in range(options.rounds):
        for ms, rows in found.items():
            for place, row in enumerate(rows):
                networks[place].begin(ms)
                seconds, texts = streams[place].compute(place + 1)
                row.append(spoken_s / seconds)
                different |= texts != words
    print("| networks | live, in turn | live, pipelined | ratio |\n|---|---|---|---|")
    for ms, (in_turn, pipelined) in found.items():
        ratio = median(new / old for old, new in zip(in_turn, pipelined, strict=True))
        name = "computed" if ms is None else f"{ms:g} ms"
        print(f"| {name} | {median(in_turn):.0f} | {median(pipelined):.0f} | {ratio:.2f} |")
    if different:
        print("pipeline: the words are not the same in all rows", file=sys.stderr)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
