"""A program with deepgram-sdk for Flux, as its users write one: turns, eager ends, other thresholds, a forced end.

The only change is the address of the service. It prints what the SDK made of the messages, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from deepgram import DeepgramClient  # type: ignore[import-not-found,unused-ignore]
from deepgram.core.api_error import ApiError  # type: ignore[import-not-found,unused-ignore]
from deepgram.core.events import EventType  # type: ignore[import-not-found,unused-ignore]
from deepgram.environment import DeepgramClientEnvironment  # type: ignore[import-not-found,unused-ignore]
from deepgram.listen.v2.types import (  # type: ignore[import-not-found,unused-ignore]
    ListenV2Configure,
    ListenV2ConfigureThresholds,
)
from websockets.exceptions import InvalidStatus

PIECE = 2560  # 80 ms, as Deepgram advises
HEADER = 44  # bytes of a WAV file


def live(client: Any, pcm: bytes) -> list[dict[str, Any]]:
    """Speak, force the end of the last turn, and close."""
    got: list[dict[str, Any]] = []
    forced = threading.Event()

    def take(message: Any) -> None:
        got.append({"class": type(message).__name__, **message.model_dump(mode="json")})
        if got[-1].get("trigger") == "manual":
            forced.set()

    with client.listen.v2.connect(
        model="flux-general-en", encoding="linear16", sample_rate=16_000, eager_eot_threshold=0.4
    ) as connection:
        connection.on(EventType.MESSAGE, take)
        listening = threading.Thread(target=connection.start_listening, daemon=True)
        listening.start()
        thresholds = ListenV2ConfigureThresholds(eot_threshold=0.5, eot_timeout_ms=3000)
        connection.send_configure(ListenV2Configure(type="Configure", thresholds=thresholds))
        for place in range(0, len(pcm), PIECE):
            connection.send_media(pcm[place : place + PIECE])
            if place <= len(pcm) // 2 < place + PIECE:
                print("half", flush=True)
        connection.send_force_end_turn()
        assert forced.wait(30)
        connection.send_close_stream()
        listening.join(30)
    return got


def refusals(client: Any) -> list[int]:
    """Return the status of requests that cannot be served."""
    found = []
    for options in ({"redact": "numbers"}, {"eot_threshold": "much"}):
        try:
            with client.listen.v2.connect(model="flux-general-en", encoding="linear16", sample_rate=16_000, **options):
                found.append(0)
        except (ApiError, InvalidStatus) as error:
            found.append(error.status_code if isinstance(error, ApiError) else error.response.status_code)
    return found


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    # These two lines are all that changes.
    http, websocket = f"http://{host}", f"ws://{host}"
    here = DeepgramClientEnvironment(base=http, production=websocket, agent=websocket, agent_rest=http)
    client = DeepgramClient(api_key="any", environment=here)
    print(json.dumps({"live": live(client, recording.read_bytes()[HEADER:]), "refused": refusals(client)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
