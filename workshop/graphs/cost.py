"""Measures what a public model costs: the whole service beside sherpa-onnx, with the same audio and one thread each.

    python -m workshop.graphs.cost FOLDER AUDIO.npy STREAMS     only sherpa-onnx, and prints JSON

Both recognise the same number of streams together, step by step. Processor time is measured, because it depends less on
other work of the machine than wall time. sherpa-onnx gets silence after the audio, as in its examples, because it does
not compute the end without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.machine import processes
from streamer.base.names import model_name
from streamer.bridge.service import Service
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.client import transcribe
from streamer.commands.accuracy.evaluation import descendants_cpu_s
from workshop.graphs.reference import reference_recogniser

PIECE_S: Final = 0.32  # each stream sends this much at a time
TAIL_S: Final = 0.66  # the silence in the examples of sherpa-onnx
_LIMIT_S: Final = 1800

Speech = NDArray[np.int16]


@dataclass(frozen=True)
class Cost:
    """The cost of one number of streams."""

    recogniser: float  # seconds of processor time for a second of audio: Triton and its instance, or sherpa-onnx
    bridge: float  # the same, for the bridge and the clients in its process
    memory: int  # the most memory of the process with the model, in bytes

    @property
    def whole(self) -> float:
        """Seconds of processor time for a second of audio."""
        return self.recogniser + self.bridge


def cost_of_service(folder: Path, speech: Speech, streams: int) -> Cost:
    """Start the service with this model in one instance, and let this many sessions send the speech."""
    name = model_name(folder)
    triton = TritonServer(
        asr_repository(), models=[name], folders={name: folder}, instances=1, slots=streams + 1, private=True
    )
    with triton:
        return asyncio.run(_served(triton, name, speech, streams))


def cost_of_reference(folder: Path, speech: Speech, streams: int) -> Cost:
    """Let sherpa-onnx decode this many streams as one batch, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name) / "speech.npy"
        np.save(path, speech)
        command = [sys.executable, "-m", "workshop.graphs.cost", str(folder), str(path), str(streams)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"sherpa-onnx failed: {done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout))


async def _served(triton: TritonServer, name: str, speech: Speech, streams: int) -> Cost:
    async with Service(triton, port=0, models={DEFAULT_MODEL: name}) as service:
        await _session(service.url, speech[: 2 * SAMPLE_RATE])  # the first steps take longer
        began, own = _descendants_cpu_s(), time.process_time()
        await asyncio.gather(*(_session(service.url, speech) for _ in range(streams)))
        audio_s = streams * len(speech) / SAMPLE_RATE
        used, own = _descendants_cpu_s() - began, time.process_time() - own
        return Cost(
            used / audio_s, own / audio_s, max(_peak(each.pid) for each in processes() if each.parent == triton.pid)
        )


async def _session(url: str, speech: Speech) -> None:
    """Send the speech. Each piece waits for the answer to the one before, so streams are computed together."""
    answered, more = 0, asyncio.Event()
    piece = round(PIECE_S * SAMPLE_RATE)

    async def pieces() -> AsyncIterator[Speech]:
        for start in range(0, len(speech), piece):
            yield speech[start : start + piece]
            while answered < start - piece:
                more.clear()
                await more.wait()

    async for event in transcribe(pieces(), url, options={"partials": True}):
        if event["type"] == "recovered":
            raise RuntimeError("an answer was overdue, so some audio was computed twice: use fewer streams")
        fields: Mapping[str, Any] = event
        answered = max(answered, fields.get("audio_ms", 0) * SAMPLE_RATE // 1000)
        more.set()


def _descendants_cpu_s() -> float:
    seconds = descendants_cpu_s(os.getpid())
    if seconds is None:
        raise RuntimeError("processor time can be measured only on Linux")
    return seconds


def _peak(process: int | str = "self") -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    match = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(match[1]) if match else 0


def _reference(folder: Path, speech: Speech, number: int) -> dict[str, Any]:
    """Return the cost of sherpa-onnx for this many streams, in this process."""
    recogniser = reference_recogniser(folder)
    decode(recogniser, speech[: 2 * SAMPLE_RATE], 1)
    began = time.process_time()
    decode(recogniser, speech, number)
    used = (time.process_time() - began) * SAMPLE_RATE / (number * len(speech))
    return {"recogniser": used, "bridge": 0.0, "memory": _peak()}


def decode(recogniser: Any, speech: Speech, number: int) -> int:
    """Let sherpa-onnx decode this many streams together. Returns how many steps it computed for each."""
    streams = [recogniser.create_stream() for _ in range(number)]
    piece, steps = round(PIECE_S * SAMPLE_RATE), 0
    for start in range(0, len(speech), piece):
        samples = speech[start : start + piece].astype(np.float32) / 32768
        for stream in streams:
            stream.accept_waveform(SAMPLE_RATE, samples)
        steps += _decode_ready(recogniser, streams)
    for stream in streams:
        stream.accept_waveform(SAMPLE_RATE, np.zeros(round(TAIL_S * SAMPLE_RATE), np.float32))
        stream.input_finished()
    return steps + _decode_ready(recogniser, streams)


def _decode_ready(recogniser: Any, streams: Sequence[Any]) -> int:
    steps = 0
    while ready := [stream for stream in streams if recogniser.is_ready(stream)]:
        recogniser.decode_streams(ready)
        steps += 1
    return steps


if __name__ == "__main__":
    json.dump(_reference(Path(sys.argv[1]), np.load(sys.argv[2]), int(sys.argv[3])), sys.stdout)
