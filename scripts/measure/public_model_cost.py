"""Measures what a public model costs: the whole service beside sherpa-onnx, in one run and with one thread each.

    .venv/bin/python scripts/measure/public_model_cost.py FOLDER
    .venv/bin/python scripts/measure/public_model_cost.py FOLDER --streams 1 8 32 --seconds 8
    .venv/bin/python scripts/measure/public_model_cost.py FOLDER --engine     the recogniser alone, without Triton

The script prints a table. Processor time is the sum over all processes of the service, for a second of audio of one
stream.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.audio.recordings import AudioError
from streamer.models.model_folder import ModelFolderError, read_model_folder
from workshop.graphs.cost import Speech, cost_of_reference, cost_of_service
from workshop.graphs.engine_cost import cost_of_engine

RECORDING = Path("audio_samples/talk.flac")


def main() -> None:
    """Measure each number of streams, and print the table."""
    parser = argparse.ArgumentParser(description="Measures what a public model costs, beside sherpa-onnx.")
    add = parser.add_argument
    add("folder", type=Path, help="the folder of a public model")
    add("--streams", type=int, nargs="+", default=[1, 8, 32], metavar="N", help="how many at a time (1 8 32)")
    add("--seconds", type=float, default=8.0, help="how much of the recording each stream gets (8)")
    add("--recording", type=Path, default=RECORDING, help=f"speech ({RECORDING})")
    add("--engine", action="store_true", help="measure the recogniser alone, without Triton")
    add(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="with --engine: the number of rounds, of which the median counts (5)",
    )
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    speech = read_audio(options.recording)[: round(options.seconds * SAMPLE_RATE)]
    print(f"{options.folder.name}: {read_model_folder(options.folder).family.title}, {len(speech) / SAMPLE_RATE:g} s\n")
    if options.engine:
        compare_engine(options.folder, speech, options.streams, options.rounds)
        return
    print("| streams | service, ms | of it bridge and client, ms | memory, MB | sherpa-onnx, ms | memory, MB | ratio |")
    print("|---" * 7 + "|", flush=True)
    for number in options.streams:
        ours = cost_of_service(options.folder, speech, number)
        theirs = cost_of_reference(options.folder, speech, number)
        cells = (
            f"{number}",
            f"{1000 * ours.whole:.0f}",
            f"{1000 * ours.bridge:.1f}",
            f"{ours.memory / 1e6:.0f}",
            f"{1000 * theirs.whole:.0f}",
            f"{theirs.memory / 1e6:.0f}",
            f"{ours.whole / theirs.whole:.2f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


def compare_engine(folder: Path, speech: Speech, streams: Sequence[int], rounds: int) -> None:
    """Measure the recogniser alone, and print the table."""
    print("| streams | recogniser, ms | steps | sherpa-onnx, ms | steps | ratio | ratio of a step |")
    print("|---" * 7 + "|", flush=True)
    for number in streams:
        cost = cost_of_engine(folder, speech, number, rounds)
        cells = (
            f"{number}",
            f"{1000 * cost.engine:.0f}",
            f"{cost.engine_steps}",
            f"{1000 * cost.reference:.0f}",
            f"{cost.reference_steps}",
            f"{cost.ratio:.2f}",
            f"{cost.step_ratio:.2f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ModelFolderError as error:
        sys.exit(f"{error}.")
    except AudioError as error:
        sys.exit(str(error))
