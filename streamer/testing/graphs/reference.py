"""Recognises segments with sherpa-onnx, in a process of its own, because it ends the process that gives it bad files.

    python -m streamer.testing.graphs.reference FOLDER SEGMENTS.npz

It prints a JSON list: for each segment the tokens as sherpa-onnx writes them, and the frame of each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamer.graphs.model_folder import read_model_folder

FRAME_S = 0.04
_LIMIT_S = 3600

Reference = tuple[list[str], list[int]]
"""The tokens of a segment and their frames."""


def reference_tokens(folder: Path, segments: Sequence[NDArray[np.int16]]) -> list[Reference]:
    """What sherpa-onnx finds in these segments, each with a stream of its own that gets exactly these samples."""
    with tempfile.TemporaryDirectory() as kept:
        path = Path(kept) / "segments.npz"
        np.savez(path, *segments)
        command = [sys.executable, "-m", "streamer.testing.graphs.reference", str(folder), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"sherpa-onnx failed: {done.stderr[-2000:]}")
    return [(tokens, frames) for tokens, frames in json.loads(done.stdout)]


def main() -> None:
    """Recognise all segments of the file."""
    import sherpa_onnx

    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    public = read_model_folder(folder)
    usual = {"tokens": str(folder / "tokens.txt"), "num_threads": 1}
    if public.transducer is None:
        recogniser = sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(model=str(public.encoder.path), **usual)
    else:
        recogniser = sherpa_onnx.OnlineRecognizer.from_transducer(
            encoder=str(public.encoder.path),
            decoder=str(public.transducer.predictor.path),
            joiner=str(public.transducer.joiner.path),
            decoding_method="greedy_search",
            **usual,
        )
    found = []
    with np.load(path) as segments:
        for name in segments.files:
            stream = recogniser.create_stream()
            stream.accept_waveform(16_000, segments[name].astype(np.float32) / 32768)
            stream.input_finished()
            while recogniser.is_ready(stream):
                recogniser.decode_stream(stream)
            frames = [round(time / FRAME_S) for time in recogniser.timestamps(stream)]
            found.append((recogniser.tokens(stream), frames))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
