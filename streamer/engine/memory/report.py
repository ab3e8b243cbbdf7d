"""Measures how much memory a recogniser takes. `streamer plan` runs it in a separate process.

    python -m streamer.engine.memory.report FOLDER --batch 32 --kind auto < speech.raw

FOLDER is a bundle, the speech is int16 at 16 kHz. It prints one JSON object: sizes in bytes, or `error`. The size of a
slot is exact: it is the difference between a recogniser with `batch` slots and one with twice as many. The other sizes
are measured while all slots of the first recogniser compute speech as one batch.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import LONGEST_SEGMENT_BOUNDS_MS
from streamer.base.memory_report import HotwordSizes, ModelReport, Sizes
from streamer.base.torch_import import CPU, best_device
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.acoustics.streaming_model import ACTIVITY, StreamingModel
from streamer.engine.bundle import load_recogniser
from streamer.engine.language.lexicon import MOST_NODES, MOST_NODES_A_STREAM, TrieTables
from streamer.engine.memory.footprint import (
    Footprint,
    GpuMemory,
    footprint,
    one_thread,
    reachable,
    resident,
    sizes,
)
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.stream_options import StreamOptions

STEPS = 4  # the steps of each stream; the memory stops growing after the first steps
BYTES_PER_SAMPLE = 2


def main() -> int:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description="Measures how much memory a recogniser takes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--kind", choices=("auto", "cpu", "gpu"), required=True)
    options = parser.parse_args()
    speech = np.frombuffer(sys.stdin.buffer.read(), dtype=np.int16)
    try:
        print(
            json.dumps(measure(options.folder, options.batch, CPU if options.kind == "cpu" else best_device(), speech))
        )
    except BundleError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    return 0


def measure(folder: Path, batch: int, device: str, speech: NDArray[np.int16]) -> ModelReport:
    """Measure the recogniser of this folder on this device. BundleError if the folder has none."""
    one_thread()
    process, gpu = resident(), GpuMemory(device)
    recogniser = load_recogniser(folder, slots=batch, device=device)
    idle, before = in_use(recogniser), resident()
    # Memory outside Python objects: the weights in onnxruntime, its libraries, and leftovers from loading.
    hidden = max(0, before["RssAnon"] - process["RssAnon"] - idle.own)
    _recognise(recogniser, batch, speech)
    busy, after, gpu_after = in_use(recogniser), resident(), gpu.used
    model = recogniser.model
    state = _state(model, batch)
    hotwords = hotwords_of(recogniser)
    del recogniser
    slot = (in_use(load_recogniser(folder, slots=2 * batch, device=device)) - idle) // batch
    loaded, words = idle - slot * batch, (busy - idle) // batch
    search = slot - state["encoder"] - state[ACTIVITY]
    audio = LONGEST_SEGMENT_BOUNDS_MS[1] * model.sample_rate // 1000 * BYTES_PER_SAMPLE
    return {
        "name": model.name,
        "device": gpu.described,
        "shared": {
            "libraries": max(process["RssFile"], after["RssFile"] - loaded.mapped),
            "tables": loaded.mapped,
        },
        "instance": {
            "process": sizes(process["RssAnon"], gpu.context),
            "model": sizes(loaded.own + hidden, loaded.device),
            "batch": sizes(
                max(0, after["RssAnon"] - process["RssAnon"] - busy.own - hidden),
                max(0, gpu_after - busy.device),
            ),
        },
        "slot": {
            "encoder": _sizes(state["encoder"]),
            "activity": _sizes(state[ACTIVITY]),
            "search": _sizes(search),
        },
        "stream": {"words": _sizes(words), "audio": sizes(audio)},
        "hotwords": hotwords,
    }


def _sizes(part: Footprint) -> Sizes:
    return sizes(part.own, part.device)


def _recognise(recogniser: Recogniser, streams: int, speech: NDArray[np.int16]) -> None:
    """Recognise different places of the speech in this many streams, in the longest steps, and leave them open."""
    step_ms = max(recogniser.model.step_ms)
    options = StreamOptions.from_dict({"step_ms": step_ms}, recogniser.model.step_ms, list(recogniser.searches))
    size = step_ms * recogniser.model.sample_rate // 1000
    audio_by_stream = {
        stream: np.resize(np.roll(speech, -stream * size // 4), STEPS * size) for stream in range(streams)
    }
    for stream in audio_by_stream:
        recogniser.open(stream, options)
    for start in range(0, STEPS * size, size):
        for _ in recogniser.step(
            [Chunk(stream, audio[start : start + size]) for stream, audio in audio_by_stream.items()]
        ):
            pass


def _state(model: StreamingModel, slots: int) -> dict[str, Footprint]:
    """Return the size of one slot in the state of the model and in its detector of speech."""
    sizes_by_part = {"encoder": Footprint(), ACTIVITY: Footprint()}
    detector: SpeechDetector | None = model.detector(slots) if hasattr(model, "detector") else None
    arrays = [(name.startswith(ACTIVITY), array) for name, array in model.make_state(slots).items()]
    arrays += [(True, array) for array in (detector.state.values() if detector else ())]
    for activity, array in arrays:
        part = ACTIVITY if activity else "encoder"
        size = array.nbytes // slots
        cpu = isinstance(array, np.ndarray) or array.device.type == "cpu"
        sizes_by_part[part] += Footprint(own=size) if cpu else Footprint(device=size)
    return sizes_by_part


def in_use(part: object) -> Footprint:
    """Return the size of a recogniser, or of a part of one, while no stream has hotwords."""
    total = footprint(part)
    reserved = sum(tables.hotword_bytes for tables in _tables(part))
    return total - Footprint(own=reserved)


def _tables(part: object) -> list[TrieTables]:
    return [item for item in reachable(part) if isinstance(item, TrieTables)]


def hotwords_of(recogniser: Recogniser) -> HotwordSizes:
    """Return the most memory for the hotwords of one stream, and for how many streams there is room."""
    size = sum(part.most_bytes_a_stream for part in _tables(recogniser))
    return {"stream": sizes(size), "streams": MOST_NODES // MOST_NODES_A_STREAM}


if __name__ == "__main__":
    sys.exit(main())
