"""A program with assemblyai, as its users write one: turns, other options in the middle, a forced end.

The only change is the address of the service. It prints what the SDK made of the messages, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from assemblyai.streaming.v3 import (  # type: ignore[import-not-found,unused-ignore]
    StreamingClient,
    StreamingClientOptions,
    StreamingEvents,
    StreamingParameters,
    StreamingSessionParameters,
)

PIECE = 3200  # 100 ms
HEADER = 44  # bytes of a WAV file


def live(host: str, pcm: bytes, *, tells: bool = False, **options: Any) -> list[dict[str, Any]]:
    """Speak, force the end of the last turn, and terminate. `tells`: say when half of the audio was sent."""
    got: list[dict[str, Any]] = []
    turns = threading.Semaphore(0)
    heard = threading.Event()

    def take(_: Any, event: Any) -> None:
        content = event.model_dump(mode="json") if hasattr(event, "model_dump") else {"error": str(event)}
        got.append({"class": type(event).__name__, **content})
        if "turn_order" in content:
            heard.set()
        if content.get("end_of_turn") and (content["turn_is_formatted"] or not options.get("format_turns")):
            turns.release()

    # This line is all that changes.
    client = StreamingClient(StreamingClientOptions(api_key="any", api_host=f"ws://{host}"))
    for kind in StreamingEvents:
        client.on(kind, take)
    client.connect(StreamingParameters(sample_rate=16_000, **options))
    if not got or got[0]["class"] == "BeginEvent":
        client.set_params(StreamingSessionParameters(max_turn_silence=1500))
        for place in range(0, len(pcm), PIECE):
            client.stream(pcm[place : place + PIECE])
            if tells and place <= len(pcm) // 2 < place + PIECE:
                assert heard.wait(30)  # the SDK sends in a thread of its own
                print("half", flush=True)
        client.force_endpoint()
        assert turns.acquire(timeout=30)
        assert turns.acquire(timeout=30)
        client.disconnect(terminate=True)
    return got


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    pcm = recording.read_bytes()[HEADER:]
    told = {"plain": live(host, pcm, tells=True), "formatted": live(host, pcm, format_turns=True)}
    print(json.dumps({**told, "refused": live(host, pcm, redact_pii=True)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
