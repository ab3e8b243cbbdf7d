"""A program with deepgram-sdk, as its users write one: live with all that voice agents ask for, then recorded.

The only change is the address of the service. It prints what the SDK made of the answers, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from deepgram import DeepgramClient  # type: ignore[import-not-found,unused-ignore]
from deepgram.core.events import EventType  # type: ignore[import-not-found,unused-ignore]
from deepgram.environment import DeepgramClientEnvironment  # type: ignore[import-not-found,unused-ignore]

PIECE = 6400
HEADER = 44  # bytes of a WAV file


def tell_half(place: int, piece: int, whole: int) -> None:
    """Print a word when half of the audio was sent."""
    if place <= whole // 2 < place + piece:
        print("half", flush=True)


def live(client: Any, pcm: bytes, endpointing: int | str = 25) -> list[dict[str, Any]]:
    """Speak, finalize and close."""
    got: list[dict[str, Any]] = []
    finalized = threading.Event()

    def take(message: Any) -> None:
        got.append({"class": type(message).__name__, **message.model_dump(mode="json")})
        if got[-1].get("from_finalize"):
            finalized.set()

    asked = {"interim_results": True, "vad_events": True, "punctuate": True, "utterance_end_ms": 1000}
    with client.listen.v1.connect(
        model="nova-3", encoding="linear16", sample_rate=16_000, endpointing=endpointing, **asked
    ) as connection:
        connection.on(EventType.MESSAGE, take)
        listening = threading.Thread(target=connection.start_listening, daemon=True)
        listening.start()
        connection.send_keep_alive()
        for place in range(0, len(pcm), PIECE):
            connection.send_media(pcm[place : place + PIECE])
            tell_half(place, PIECE, len(pcm))
        connection.send_finalize()
        assert finalized.wait(30)
        connection.send_close_stream()
        listening.join(30)
    return got


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    # These two lines are all that changes.
    http, websocket = f"http://{host}", f"ws://{host}"
    here = DeepgramClientEnvironment(base=http, production=websocket, agent=websocket, agent_rest=http)
    client = DeepgramClient(api_key="any", environment=here)
    audio = recording.read_bytes()
    messages = live(client, audio[HEADER:])
    unending = live(client, audio[HEADER:], "false")
    recorded = client.listen.v1.media.transcribe_file(request=audio, model="nova-3", smart_format=True, utterances=True)
    try:
        client.listen.v1.media.transcribe_url(url="http://elsewhere.example/talk.wav", model="nova-3")
        refused: Any = None
    except Exception as error:
        refused = [type(error).__name__, getattr(error, "status_code", 0)]
    told = {"live": messages, "endpointing off": unending, "recorded": recorded.model_dump(mode="json")}
    print(json.dumps({**told, "refused": refused}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
