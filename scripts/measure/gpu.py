"""Measures everything that a GPU should make faster, in nine minutes: on a GPU, or on a CPU in the same way.

    python scripts/measure/gpu.py [--device cuda|cpu] [--to FOLDER] [--part NAME]… [--quick]

The parts, each in a process of its own with a limit of its own, and each with its figures in FOLDER/NAME.json at once:

    machine    what is there
    words      160 recordings, whose words must be those of a CPU: on the device, in random batches
    steps      how long steps of many streams take in one process, by their parts
    one        a real Triton with one instance, loaded over gRPC with sequences at the pace of speech; one batch is
               searched while the networks compute another one
    in_turn    the same with networks and search one after another, with fewer numbers of sequences
    four       the same with four instances, as they are configured
    service    the whole service by `streamer load`

Without a GPU, `words` compares the CPU with itself. --quick only tries whether everything works; its figures mean
nothing. `scripts/measure/gpu_bundle` packs what a bare machine needs. The exit status is 1 if a part failed, or if
words differ.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.json_types import JsonObject
from streamer.base.machine import machine_memory, processors
from streamer.base.package import shipped
from streamer.base.torch_import import CPU, best_device
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.engine.bundle import load_recogniser
from workshop.gpu.paced_sequences import load
from workshop.gpu.pipeline import make_repository
from workshop.gpu.steps import SMALL_BATCHES, StepTimes, words_of

PACKAGES: Final = ("torch", "onnxruntime", "numpy", "numba", "nvidia-pytriton", "tritonclient")
AUDIO: Final = ("talk.flac", "quilter.ogg", "airplane.mp3")
RATE: Final = 16_000
RECORDING_S: Final = (2.0, 10.0)
TOO_LATE_MS: Final = 3000  # a Triton whose answers are this late is not loaded with more sequences


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    recordings: int = 160
    streams: tuple[int, ...] = (1, 32, 128, 256, 512, 1024, 2048)
    steps: int = 6
    small_batches: int = 40
    sequences: tuple[int, ...] = (32, 128, 256, 512, 1024, 2048, 4096)
    sequence_s: float = 6.0
    sessions: tuple[int, ...] = (32, 128, 512, 1000)
    session_s: float = 6.0


QUICK: Final = Effort(4, (1, 3), 2, 3, (2, 3), 2.0, (1, 2), 2.0)

Samples = NDArray[np.int16]


def main() -> int:
    """Measure, or measure one part in this process. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="cuda or cpu (a GPU if there is one)")
    parser.add_argument("--to", type=Path, default=Path("build/gpu"), metavar="FOLDER", help="build/gpu")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given several times")
    parser.add_argument("--quick", action="store_true", help="a few streams, for two seconds each")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # the part in this process
    options = parser.parse_args()
    options.device = options.device or best_device()
    if options.here:
        [part] = options.part
        print(json.dumps(PARTS[part].measure(options.device, QUICK if options.quick else Effort())))
        return 0
    options.to.mkdir(parents=True, exist_ok=True)
    statuses = [_run(name, options) for name in options.part or PARTS]
    return int(not all(statuses))


def _run(name: str, options: argparse.Namespace) -> bool:
    """Measure a part in a process of its own, and write what it found. Return whether all is well."""
    limit_s = PARTS[name].limit_s
    command = [sys.executable, __file__, "--here", "--part", name, "--device", options.device]
    surroundings = os.environ | ({"CUDA_VISIBLE_DEVICES": ""} if options.device == CPU else {})
    began = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                command + ["--quick"] * options.quick,
                env=surroundings,
                stdout=output,
                stderr=errors,
                timeout=limit_s,
                check=False,
            )
            problem = "" if done.returncode == 0 else f"it ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"it was not done after {limit_s} s"
        output.seek(0)
        errors.seek(0)
        # What a part had found before it failed is kept as well.
        lines = output.read().decode(errors="replace").splitlines()
        found: JsonObject = json.loads(lines[-1]) if lines else {}
        if problem:
            problem = f"{problem}: {errors.read().decode(errors='replace').strip()[-1500:]}"
    took_s = round(time.monotonic() - began, 1)
    report = {"part": name, "took_s": took_s, **({"problem": problem} if problem else {}), **found}
    (options.to / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{name} ({took_s} s): {problem or json.dumps(found)}", flush=True)
    return not problem and not found.get("different")


def _machine(device: str, effort: Effort) -> JsonObject:
    versions = dict[str, str | None]()
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    found: JsonObject = {
        "device": device,
        "processors": processors(),
        "memory": machine_memory().size,
        "python": platform.python_version(),
        "packages": versions,
    }
    if device != CPU:
        import torch

        properties = torch.cuda.get_device_properties(device)
        found["gpu"] = {"name": properties.name, "memory": properties.total_memory, "cuda": torch.version.cuda}
    return found | _load(device)


def _load(device: str) -> JsonObject:
    """Return what the GPU is doing."""
    if device == CPU:
        return {}
    command = ["nvidia-smi", "--query-gpu=driver_version,memory.used,utilization.gpu", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        return {"nvidia_smi": done.stdout.strip()}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"nvidia_smi": str(error)}


def _audio() -> Samples:
    return np.concatenate([np.asarray(read_audio(shipped(f"audio_samples/{name}"))) for name in AUDIO])


def _recordings(number: int) -> list[Samples]:
    """Cut recordings anywhere out of the samples, always the same ones."""
    audio, dice = _audio(), np.random.default_rng(0)
    lengths = dice.integers(round(RECORDING_S[0] * RATE), round(RECORDING_S[1] * RATE), number)
    return [audio[begin : begin + length] for length in lengths for begin in dice.integers(0, len(audio) - length, 1)]


def _words(device: str, effort: Effort) -> JsonObject:
    recordings = _recordings(effort.recordings)
    bundle = shipped("asr_repo/streaming_asr/1")
    texts, took_s = [], []
    for seed, place in enumerate((CPU, device)):
        recogniser = load_recogniser(bundle, slots=len(recordings), device=place)
        began = time.monotonic()
        texts.append(words_of(recogniser, recordings, seed))
        took_s.append(time.monotonic() - began)
    audio_s = sum(map(len, recordings)) / RATE
    pairs = list(zip(*texts, strict=True))
    different = [pair for pair in pairs if pair[0] != pair[1]]
    return {
        "recordings": len(recordings),
        "words": sum(len(text.split()) for text in texts[0]),
        "different": len(different),
        "examples": different[:3],
        "times_real_time": {place: round(audio_s / s, 1) for place, s in zip((CPU, "device"), took_s, strict=True)},
    }


def _steps(device: str, effort: Effort) -> JsonObject:
    bundle = shipped("asr_repo/streaming_asr/1")
    times = StepTimes(bundle, _audio(), max(effort.streams), device)
    rows = [times.measure(min(256, effort.streams[-1]), effort.small_batches, SMALL_BATCHES)]
    found: JsonObject = {"load_s": round(times.load_s, 1), "rows": rows}
    for streams in effort.streams:
        rows.append(times.measure(streams, effort.steps))
        print(json.dumps(found), flush=True)
    return found


def _triton(instances: int, pipelined: bool | None = None) -> Callable[[str, Effort], JsonObject]:
    def measure(device: str, effort: Effort) -> JsonObject:
        most = max(effort.sequences)
        numbers = effort.sequences if pipelined is not False else effort.sequences[1::2]
        audio, clients = _audio().tobytes(), max(1, min(8, processors() // 2))
        options = {"words": True}
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            server = TritonServer(
                asr_repository() if pipelined is None else make_repository(Path(folder, "models"), pipelined=pipelined),
                models=[MODEL],
                instances=instances,
                slots=-(-most // instances) + 1,
                private=True,
                ready_timeout=120.0,
                log=log,
            )
            began = time.monotonic()
            with server:
                found: JsonObject = {"instances": instances, "ready_s": round(time.monotonic() - began, 1)}
                first = load(server.grpc_address, audio, min(32, most), effort.sequence_s / 2, clients, options)
                levels = list[JsonObject]()
                for sequences in numbers:
                    heard = load(server.grpc_address, audio, sequences, effort.sequence_s, clients, options)
                    levels.append({"sequences": sequences, **heard.figures()} | _load(device))
                    # What is known so far is not lost if the limit ends this process.
                    print(json.dumps({**found, "levels": levels}), flush=True)
                    if heard.late_ms() > TOO_LATE_MS:
                        break
            return {**found, "first_use": first.figures(), "levels": levels, "loads": _loads(log)}

    return measure


def _loads(log: Path) -> list[str]:
    """Return the lines of Triton's log about GPUs and graphs."""
    lines = log.read_text(errors="replace").splitlines()
    return [line[:200] for line in lines if "GPU" in line or "Graphs of steps" in line][:20]


def _service(device: str, effort: Effort) -> JsonObject:
    instances = 4 if device != CPU else 1
    slots = -(-max(effort.sessions) // instances) + 2
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "load.json")
        command = [sys.executable, "-m", "streamer", "load", "--server", "embedded", "--json", str(report)]
        command += ["--sessions", ",".join(map(str, effort.sessions)), "--seconds", str(effort.session_s)]
        command += ["--serve", f"--instances {instances} --slots {slots}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        found: JsonObject = json.loads(report.read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Part:
    """What is measured, and how long it may take."""

    measure: Callable[[str, Effort], JsonObject]
    limit_s: int


PARTS: Mapping[str, Part] = {
    "machine": Part(_machine, 20),
    "words": Part(_words, 100),
    "steps": Part(_steps, 110),
    "one": Part(_triton(1, pipelined=True), 75),
    "in_turn": Part(_triton(1, pipelined=False), 60),
    "four": Part(_triton(4), 90),
    "service": Part(_service, 85),
}


if __name__ == "__main__":
    sys.exit(main())
