"""Measures the cost of steps of 160 and 320 ms, and of a flush: CPU time of the engine alone, by its parts.

    python scripts/measure/step_cost.py [--streams 1,8,32] [--seconds 6] [--rounds 3] [--bundle FOLDER]
    python scripts/measure/step_cost.py --streams 32,256 --steps 320 --beside CHECKOUT

All streams get a step at the same time, as one batch on one thread. The first table has the CPU time for a second of
the audio of one stream; the lengths of the steps take turns, and each figure is the median of the rounds. Each part is
without the parts within it, so their sum is `all`. `words, a step` is the CPU time in milliseconds that turns the
emissions of one step of one stream into JSON: the last six parts. The second table has the CPU time of one stream for a
flush, by how long the speaker has paused, and how many steps it computes.

With `--beside`, another checkout with this script takes turns with this one, in processes of their own.

The machine need not be idle, but the figures of a busy one are higher. Compare only those of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.events import as_json
from streamer.base.limits import STEP_MS
from streamer.base.package import shipped
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.acoustics.encoder_graphs import CompiledEncoder
from streamer.engine.acoustics.features import LogMel
from streamer.engine.acoustics.head_graphs import CompiledActivity
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.bundle import load_recogniser
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search import beam_search
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.stream import StepHandling
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.punctuation_model import PunctuationModel
from workshop.model_steps import own_step
from workshop.part_times import ALL, REST, Places, part_times

AUDIO = shipped("audio_samples/talk.flac")
PAUSES_MS = (0, 300, 600)
MS = 16  # samples
PARTS: Places = {
    "features": [(LogMel, "energies")],  # includes that of the pieces
    "encoder": [(CompiledEncoder, "step")],
    "activity": [(CompiledActivity, "step")],  # includes that of the pieces
    "pieces": [(SpeechDetector, "compute")],
    "search loops": [(beam_search, "read_steps")],
    "neural model": [(NeuralModel, "read"), (NeuralModel, "score")],
    "search": [(BeamSearch, "advance")],
    "end of segment": [(BeamSearch, "finish"), (BeamSearch, "alternatives")],
    "marks": [(PunctuationModel, "read")],
    "results": [(StepHandling, "run")],
}
WORDS = ("search loops", "neural model", "search", "end of segment", "marks", "results")
FIGURES = (ALL, *PARTS, REST, "words, a step")  # the rest is audio, steps and answers

Samples = NDArray[np.int16]


Table = dict[str, dict[int, list[dict[str, float]]]]
"""The figures by streams and step, for each round."""


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=_numbers, default=[1, 8, 32], help="1,8,32")
    parser.add_argument("--steps", type=_numbers, default=[320, 160], help="their lengths in ms: 320,160")
    parser.add_argument("--seconds", type=float, default=6.0, help="of audio in each round (6)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    parser.add_argument("--beside", type=Path, help="another checkout, to compare with")
    parser.add_argument("--json", action="store_true", help="only the figures of the first table")
    options = parser.parse_args()
    if options.beside:
        return _compare(options)
    torch.set_num_threads(1)
    try:
        recogniser = load_recogniser(options.bundle, slots=max(options.streams))
    except BundleError as error:
        print(f"step_cost: {error}", file=sys.stderr)
        return 1
    options.steps = [own_step(step_ms, recogniser.model.step_ms) for step_ms in options.steps]
    audio: Samples = np.asarray(read_audio(AUDIO))
    if options.json:
        print(json.dumps(_measured(recogniser, audio, options, quick=True)))
        return 0
    _print_table("", _measured(recogniser, audio, options))
    print("\n| pause before the flush | CPU time, median | steps |\n|---|---|---|")
    step_ms = own_step(STEP_MS, recogniser.model.step_ms)
    for paused_ms in PAUSES_MS:
        flushes = [_flush(recogniser, audio, paused_ms, left_ms, step_ms) for left_ms in range(20, step_ms, 60)]
        steps = sorted(steps for _, steps in flushes)
        print(f"| {paused_ms} ms | {median(ms for ms, _ in flushes):.0f} ms | {steps[0]} to {steps[-1]} |", flush=True)
    return 0


def _numbers(text: str) -> list[int]:
    return list(map(int, text.split(",")))


def _compare(options: argparse.Namespace) -> int:
    """Let this checkout and another take turns, and print both tables."""
    here = Path(__file__).parents[2]
    tables: dict[str, Table] = {"here": {}, "beside": {}}
    for _ in range(options.rounds):
        for name, checkout in (("here", here), ("beside", options.beside.resolve())):
            command = [sys.executable, str(checkout / "scripts/measure/step_cost.py"), "--json", "--rounds", "1"]
            for flag in ("streams", "steps"):
                command += [f"--{flag}", ",".join(map(str, getattr(options, flag)))]
            command += ["--seconds", str(options.seconds), "--bundle", str(options.bundle)]
            surroundings = os.environ | {"PYTHONPATH": str(checkout)}
            result = subprocess.run(command, capture_output=True, text=True, env=surroundings, cwd=checkout, check=True)
            for streams, by_step in json.loads(result.stdout).items():
                for step_ms, rounds in by_step.items():
                    tables[name].setdefault(streams, {}).setdefault(int(step_ms), []).extend(rounds)
    for name, table in tables.items():
        _print_table(name, table)
    return 0


def _measured(recogniser: Recogniser, audio: Samples, options: argparse.Namespace, *, quick: bool = False) -> Table:
    """Measure all numbers of streams and lengths of steps. `quick`: some steps before it prepare the process."""
    if quick:
        _steps(recogniser, audio, min(options.streams), options.steps[0], 2.0)
    return {
        str(streams): _turned(
            [
                {step_ms: _steps(recogniser, audio, streams, step_ms, options.seconds) for step_ms in options.steps}
                for _ in range(options.rounds)
            ]
        )
        for streams in options.streams
    }


def _turned(rounds: list[dict[int, dict[str, float]]]) -> dict[int, list[dict[str, float]]]:
    return {step_ms: [each[step_ms] for each in rounds] for step_ms in rounds[0]}


def _print_table(name: str, table: Table) -> None:
    """Print the medians of all rounds, and how many times as much the shorter of two lengths of steps costs."""
    print(f"| streams | {name or 'step'} | {' | '.join(FIGURES)} |\n|{'---|' * (2 + len(FIGURES))}")
    for streams, by_step in table.items():
        for step_ms, rounds in by_step.items():
            figures = [median(each[figure] for each in rounds) for figure in FIGURES]
            texts = [f"{figure:.2f}" for figure in figures]
            print(f"| {streams} | {step_ms} ms | {' | '.join(texts)} |", flush=True)
        if len(by_step) == 2:
            shorter, longer = (by_step[step_ms] for step_ms in sorted(by_step))
            ratios = sorted(one["all"] / two["all"] for one, two in zip(shorter, longer, strict=True))
            print(f"| {streams} | ratio | {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)


def _steps(recogniser: Recogniser, audio: Samples, streams: int, step_ms: int, seconds: float) -> dict[str, float]:
    """Return the CPU milliseconds for a second of each stream, and those of its words for a step."""
    for stream in range(streams):
        recogniser.open(stream, StreamOptions(step_ms=step_ms))
    count, size = int(1000 * seconds) // step_ms, step_ms * MS
    batches = [[Chunk(each, _part(audio, each, number, size)) for each in range(streams)] for number in range(count)]
    with part_times(PARTS) as times:
        for batch in batches:
            for _, events in recogniser.step(batch):
                if isinstance(events, StreamError):
                    raise events
                for event in events:
                    as_json(event)
    for stream in range(streams):
        recogniser.close(stream)
    figures = {part: 1e6 * spent / (streams * count * step_ms) for part, spent in times.seconds.items()}
    return figures | {"words, a step": sum(figures[part] for part in WORDS) * step_ms / 1000}


def _part(audio: Samples, stream: int, number: int, size: int) -> Samples:
    begin = 7919 * stream % (len(audio) // 2) + number * size
    return np.take(audio, range(begin, begin + size), mode="wrap")


def _flush(recogniser: Recogniser, audio: Samples, paused_ms: int, left_ms: int, step_ms: int) -> tuple[float, int]:
    """Return the CPU milliseconds and the steps of a flush after a pause, with `left_ms` of audio in the last step."""
    dice = np.random.default_rng(0)
    spoken = np.concatenate([audio[: 3200 * MS], dice.integers(-3, 4, paused_ms * MS, dtype=np.int16)])
    whole = (len(spoken) // MS - left_ms) // step_ms * step_ms + left_ms
    recogniser.open(0, StreamOptions(step_ms=step_ms))
    for _ in recogniser.step([Chunk(0, spoken[-whole * MS :])]):
        pass
    with part_times(PARTS) as times:
        for _ in recogniser.step([Chunk(0, spoken[:0], flush=True)]):
            pass
    recogniser.close(0)
    return 1000 * times.seconds[ALL], times.calls["encoder"]


if __name__ == "__main__":
    sys.exit(main())
