"""Measures how much memory a service needs while a large recording is uploaded: the bridge, and its decoder.

    python scripts/measure/upload_memory.py [--megabytes 700]

It starts a service of its own with a model that computes next to nothing, sends a recording (stereo, 48 kHz, 24 bits)
that it makes while it sends, and prints a table. Linux only.
"""

from __future__ import annotations

import argparse
import http.client
import json
import struct
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from streamer.audio.arriving.process import MODULE
from streamer.machine.processes import command, descendants
from streamer.testing import say
from streamer.testing.exact_repository import exact_repository
from streamer.testing.exact_speech import silence
from streamer.testing.watched_process import memory_mb, service

RATE, CHANNELS, WIDTH = 48_000, 2, 3
CHUNKED = {"Transfer-Encoding": "chunked"}
EVERY_S = 0.05
PATIENCE_S = 3600


def main() -> int:
    """Upload, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=700, help="size of the recording (700)")
    parser.add_argument("--limit", type=float, default=100.0, metavar="MB", help="the most that each may need (100)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = exact_repository(Path(folder) / "models")
        with service(None, "--repository", str(repository)) as (url, watched):
            bridge = watched.pid("bridge")
            before = memory_mb(bridge)
            most: dict[str, float] = defaultdict(float)
            done = threading.Event()
            sampling = threading.Thread(target=sample, args=(bridge, most, done))
            sampling.start()
            began = time.monotonic()
            answer = upload(url, options.megabytes)
            seconds = time.monotonic() - began
            done.set()
            sampling.join()
    words = sum(len(segment["words"]) for segment in answer["segments"])
    print("| what | seen |\n|---|---|")
    print(f"| recording | {options.megabytes} MB, {answer['duration_ms'] / 60_000:.1f} min, in {seconds:.0f} s |")
    print(f"| words | {words} |")
    print(f"| memory of the bridge, MB | before {before:.0f}, at most {most['bridge']:.0f} |")
    print(f"| memory of the decoder, MB | at most {most['decoder']:.0f} |")
    return int(max(most["bridge"], most["decoder"]) > options.limit)


def upload(url: str, megabytes: int) -> dict[str, Any]:
    """Send the recording, and return the answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    connection.request("POST", "/v1/transcribe", pieces(megabytes), encode_chunked=True, headers=CHUNKED)
    response = connection.getresponse()
    content = response.read()
    if response.status != http.HTTPStatus.OK:
        sys.exit(f"upload_memory: {content.decode()}")
    answer: dict[str, Any] = json.loads(content)
    return answer


def pieces(megabytes: int) -> Iterator[bytes]:
    """A WAV file of this size."""
    mono = np.repeat(np.concatenate([say("a word in a long recording"), silence(4000)]), RATE // 16_000)
    samples = (np.repeat(mono.astype("<i4"), CHANNELS) << 16).view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
    times = megabytes * 1_000_000 // len(samples)
    frame = CHANNELS * WIDTH
    wave = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, CHANNELS, RATE, RATE * frame, frame, 8 * WIDTH)
    length = times * len(samples)
    yield struct.pack("<4sI4s", b"RIFF", length + 36, b"WAVE") + wave + struct.pack("<4sI", b"data", length)
    for _ in range(times):
        yield samples


def sample(bridge: int, most: dict[str, float], done: threading.Event) -> None:
    """Note the most memory of the bridge and of its decoder."""
    while not done.wait(EVERY_S):
        with suppress(OSError):
            most["bridge"] = max(most["bridge"], memory_mb(bridge))
        for each in descendants(bridge):
            with suppress(OSError):
                if MODULE in command(each.pid):
                    most["decoder"] = max(most["decoder"], memory_mb(each.pid))


if __name__ == "__main__":
    sys.exit(main())
