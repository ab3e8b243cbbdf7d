"""Recognises with faster-whisper what arrives on standard input. It runs in an environment that has nothing of ours.

    PYTHON workshop/comparison/whisper_process.py FOLDER

Each recording is its number of samples (4 bytes, little-endian), and then the samples, 16 bits each at 16 kHz. The
answer is a line of JSON: the text, and the seconds of CPU time. FOLDER has a model of CTranslate2.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from faster_whisper import WhisperModel  # type: ignore[import-not-found, unused-ignore]

_FULL_SCALE = 32768.0


def main() -> None:
    """Answer until the input ends."""
    # One thread, as all other times are of one; whole numbers, which is the fastest on a CPU.
    model = WhisperModel(sys.argv[1], device="cpu", compute_type="int8", cpu_threads=1, num_workers=1)
    while size := sys.stdin.buffer.read(4):
        samples = np.frombuffer(sys.stdin.buffer.read(2 * int.from_bytes(size, "little")), dtype="<i2")
        began = time.process_time()
        segments, _ = model.transcribe(
            samples.astype(np.float32) / _FULL_SCALE,
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        text = " ".join(segment.text.strip() for segment in segments)
        print(json.dumps({"text": text, "cpu_s": time.process_time() - began}), flush=True)


if __name__ == "__main__":
    main()
