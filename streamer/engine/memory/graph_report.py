"""Measures how much memory a public model takes. `streamer plan` runs it in a separate process.

    python -m streamer.engine.memory.graph_report FOLDER --batch 32 --kind auto < speech.raw

It prints the same JSON as `streamer.engine.memory.report`, but works without torch, like the instances of such a model.
The size of a slot is the size of the states in the graph and in the search. The size of the weights is their size in
the files; additional memory of onnxruntime is counted with the batch.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import LONGEST_SEGMENT_BOUNDS_MS
from streamer.base.memory_report import ModelReport, Sizes
from streamer.engine.memory.footprint import footprint
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.stream_options import StreamOptions
from streamer.models.model_folder import ModelFolderError, read_any_folder

STEPS: Final = 4  # the steps of each stream; the memory stops growing after the first steps
BYTES_PER_SAMPLE: Final = 2


def main() -> int:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description="Measures how much memory a public model takes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--kind", help="not used: public models compute on the CPU")
    options = parser.parse_args()
    speech = np.frombuffer(sys.stdin.buffer.read(), dtype=np.int16)
    try:
        print(json.dumps(measure(options.folder, options.batch, speech)))
    except ModelFolderError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    return 0


def measure(folder: Path, batch: int, speech: NDArray[np.int16]) -> ModelReport:
    """Measure the model in this folder. ModelFolderError if it has none."""
    process = _resident()
    weights = sum(graph.size for graph in read_any_folder(folder).graphs)
    recogniser = load_public_model(folder, name=folder.name, slots=batch)
    idle = footprint(recogniser).own
    _recognise(recogniser, batch, speech)
    busy, after = footprint(recogniser).own, _resident()
    model = recogniser.model
    encoder = sum(array.nbytes for array in model.make_state(batch).values()) // batch
    del recogniser
    slot = (footprint(load_public_model(folder, name=folder.name, slots=2 * batch)).own - idle) // batch
    audio = LONGEST_SEGMENT_BOUNDS_MS[1] * model.sample_rate // 1000 * BYTES_PER_SAMPLE
    return {
        "name": model.name,
        "device": {"kind": "cpu"},
        "shared": {"libraries": after["RssFile"], "tables": 0},
        "instance": {
            "process": _bytes(process["RssAnon"]),
            "model": _bytes(idle - slot * batch + weights),
            "batch": _bytes(max(0, after["RssAnon"] - process["RssAnon"] - busy - weights)),
        },
        "slot": {"encoder": _bytes(encoder), "activity": _bytes(0), "search": _bytes(max(0, slot - encoder))},
        "stream": {"words": _bytes(max(0, busy - idle) // batch), "audio": _bytes(audio)},
        "hotwords": {"stream": _bytes(0), "streams": 0},
    }


def _recognise(recogniser: Recogniser, streams: int, speech: NDArray[np.int16]) -> None:
    """Recognise different places of the speech in this many streams, and leave them open."""
    step_ms, *_ = recogniser.model.step_ms
    [search, *_] = recogniser.searches
    size = step_ms * recogniser.model.sample_rate // 1000
    # The last step is computed only with the samples after it.
    audio_by_stream = {
        stream: np.resize(np.roll(speech, -stream * size // 4), (STEPS + 1) * size) for stream in range(streams)
    }
    for stream in audio_by_stream:
        recogniser.open(stream, StreamOptions(step_ms=step_ms, search=search))
    for start in range(0, (STEPS + 1) * size, size):
        for _ in recogniser.step(
            [Chunk(stream, audio[start : start + size]) for stream, audio in audio_by_stream.items()]
        ):
            pass


def _resident() -> dict[str, int]:
    """Return the memory of this process. RssAnon is its own, RssFile is mapped from files that processes share."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return {name: 1024 * int(size) for name, size in re.findall(r"^(Rss\w+):\s*(\d+) kB$", status, re.MULTILINE)}


def _bytes(main: int) -> Sizes:
    return {"main": main, "gpu": 0}


if __name__ == "__main__":
    sys.exit(main())
