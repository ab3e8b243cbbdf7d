"""Measures how much memory a step of `asr_heads` takes. `streamer plan` runs it in a separate process.

    python -m streamer.heads.step_report FOLDER --part encoder --heard FILE --batch 32 --kind auto < speech.raw

FOLDER is a bundle, the speech is int16 at 16 kHz. The encoder writes its results for the heads into FILE, and the heads
read them from there. It prints one JSON object: sizes in bytes, or `error`. As in `report`, the size of a slot is the
difference between a part with `batch` slots and one with twice as many, and all slots then compute one batch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import LONGEST_SEGMENT_BOUNDS_MS
from streamer.base.memory_report import StepReport
from streamer.base.torch_import import CPU, best_device
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.memory.footprint import GpuMemory, one_thread, resident, sizes
from streamer.engine.memory.report import BYTES_PER_SAMPLE, STEPS, hotwords_of, in_use
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.stream_options import StreamOptions
from streamer.heads.activity_head import ActivityHead, Energies
from streamer.heads.loading import load_activity_head, load_speech_encoder, load_transcript_head
from streamer.heads.passage import Passage
from streamer.heads.speech_encoder import Sound, SpeechEncoder
from streamer.heads.transcript_head import EncodedChunk

RATE = 16_000
Speech = NDArray[np.int16]
Part = SpeechEncoder | ActivityHead | Recogniser
LOADERS: Mapping[str, Callable[..., Part]] = {
    "encoder": load_speech_encoder,
    "activity": load_activity_head,
    "transcript": load_transcript_head,
}


def main() -> int:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description="Measures how much memory a step of asr_heads takes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=LOADERS, required=True)
    parser.add_argument("--heard", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--kind", choices=("auto", "cpu", "gpu"), required=True)
    options = parser.parse_args()
    speech = np.frombuffer(sys.stdin.buffer.read(), dtype=np.int16)
    device = CPU if options.kind == "cpu" else best_device()
    try:
        print(json.dumps(measure(options.folder, options.part, options.heard, options.batch, device, speech)))
    except BundleError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    return 0


def measure(folder: Path, name: str, encoded_path: Path, batch: int, device: str, speech: Speech) -> StepReport:
    """Measure one part of the recogniser in this folder on this device. BundleError if the folder has none."""
    one_thread()
    process, gpu, load = resident(), GpuMemory(device), LOADERS[name]
    part = load(folder, slots=batch, device=device)
    idle = in_use(part)
    if isinstance(part, SpeechEncoder):
        _encode(part, batch, speech, encoded_path)
    elif isinstance(part, ActivityHead):
        _follow(part, batch, encoded_path)
    else:
        _recognise(part, batch, encoded_path)
    busy, after, gpu_after = in_use(part), resident(), gpu.used
    hotwords = hotwords_of(part) if isinstance(part, Recogniser) else None
    audio = LONGEST_SEGMENT_BOUNDS_MS[1] * RATE // 1000 * BYTES_PER_SAMPLE if name == "encoder" else 0
    label = "" if isinstance(part, ActivityHead) else part.model.name
    del part
    slot = (in_use(load(folder, slots=2 * batch, device=device)) - idle) // batch
    loaded, stream = idle - slot * batch, (busy - idle) // batch
    return {
        "name": label,
        "device": gpu.described,
        "shared": {"libraries": max(process["RssFile"], after["RssFile"] - loaded.mapped), "tables": loaded.mapped},
        "instance": {
            "process": sizes(process["RssAnon"], gpu.context),
            "model": sizes(loaded.own, loaded.device),
            "batch": sizes(max(0, after["RssAnon"] - process["RssAnon"] - busy.own), max(0, gpu_after - busy.device)),
        },
        "slot": sizes(slot.own, slot.device),
        "stream": sizes(max(0, stream.own), max(0, stream.device)),
        "audio": sizes(audio),
        "hotwords": hotwords,
    }


def _encode(encoder: SpeechEncoder, streams: int, speech: Speech, encoded_path: Path) -> None:
    """Encode different places of the speech in this many streams, in the longest steps, and leave them open."""
    step_ms = max(encoder.model.step_ms)
    size = step_ms * encoder.model.sample_rate // 1000
    audio = [np.resize(np.roll(speech, -stream * size // 4), STEPS * size) for stream in range(streams)]
    steps = []
    for number in range(STEPS):
        part = slice(number * size, (number + 1) * size)
        sounds = [
            Sound(stream, samples[part], {"step_ms": step_ms}, start=number == 0)
            for stream, samples in enumerate(audio)
        ]
        steps.append(encoder.encode(sounds))
    np.savez(
        encoded_path,
        passages=np.array([[encoded.passage.to_json() for encoded in step] for step in steps]),
        frames=np.array([[encoded.frames for encoded in step] for step in steps]),
        energies=np.array([[encoded.energies for encoded in step] for step in steps]),
        samples=np.array(size),
    )


def _follow(head: ActivityHead, streams: int, encoded_path: Path) -> None:
    """Detect the activity of all streams that were encoded."""
    with np.load(encoded_path) as content:
        for number, passages, energies in zip(range(STEPS), content["passages"], content["energies"], strict=True):
            head.follow(
                [
                    Energies(stream, Passage.from_json(str(passages[stream])), energies[stream], start=number == 0)
                    for stream in range(streams)
                ]
            )


def _recognise(recogniser: Recogniser, streams: int, encoded_path: Path) -> None:
    """Recognise the frames that were encoded in this many streams, and leave them open."""
    step_ms = max(recogniser.model.step_ms)
    for stream in range(streams):
        recogniser.open(
            stream,
            StreamOptions.from_dict({"step_ms": step_ms}, recogniser.model.step_ms, list(recogniser.searches)),
        )
    with np.load(encoded_path) as content:
        size = int(content["samples"])
        for passages, frames in zip(content["passages"], content["frames"], strict=True):
            parts = [
                EncodedChunk(Passage.from_json(str(passages[stream])), frames[stream], (), size)
                for stream in range(streams)
            ]
            for _ in recogniser.step([Chunk(stream, part) for stream, part in enumerate(parts)]):
                pass


if __name__ == "__main__":
    sys.exit(main())
