"""Recognises with moonshine-voice what arrives on standard input. It runs in an environment that has nothing of ours.

    PYTHON workshop/graphs/moonshine_process.py FOLDER < SEGMENTS

Each segment is the number of its samples and the number of its updates (4 bytes each, little-endian), the samples after
which each update comes (4 bytes each), and the samples, 16 bits each at 16 kHz. The answer is a line of JSON with the
texts after all updates. The detector of speech is off, so that a segment is one line of the transcript.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from moonshine_voice.moonshine_api import ModelArch  # type: ignore[import-not-found, import-untyped, unused-ignore]
from moonshine_voice.transcriber import Transcriber  # type: ignore[import-not-found, import-untyped, unused-ignore]

_FULL_SCALE = 32768.0
_OPTIONS = {"vad_threshold": "0", "vad_max_segment_duration": "100000", "return_audio_data": "false"}


def main() -> None:
    """Answer until the input ends."""
    transcriber = Transcriber(sys.argv[1], ModelArch.TINY_STREAMING, update_interval=1e9, options=_OPTIONS)
    while header := sys.stdin.buffer.read(8):
        samples, updates = np.frombuffer(header, "<u4").tolist()
        ends = np.frombuffer(sys.stdin.buffer.read(4 * updates), "<u4").tolist()
        audio = np.frombuffer(sys.stdin.buffer.read(2 * samples), "<i2").astype(np.float32) / _FULL_SCALE
        texts, at = [], 0
        with transcriber.create_stream(update_interval=1e9) as stream:
            stream.start()
            for end in ends:
                stream.add_audio(audio[at:end].tolist())
                transcript = stream.update_transcription(Transcriber.MOONSHINE_FLAG_FORCE_UPDATE)
                texts.append(" ".join(line.text for line in transcript.lines))
                at = end
        print(json.dumps(texts), flush=True)


if __name__ == "__main__":
    main()
