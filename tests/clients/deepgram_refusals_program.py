"""A program with deepgram-sdk that is refused: an option that is not there, a wrong key, a service that is full.

It prints the errors that its user would see, as JSON. The environment names the authority of the certificate.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from deepgram import DeepgramClient  # type: ignore[import-not-found,unused-ignore]
from deepgram.environment import DeepgramClientEnvironment  # type: ignore[import-not-found,unused-ignore]
from websockets.exceptions import InvalidStatus

SAMPLES = {"model": "nova-3", "encoding": "linear16", "sample_rate": 16_000}


def live(client: Any, **options: Any) -> int:
    """The status of the error that opening a live session raises; 101 if there was none."""
    try:
        with client.listen.v1.connect(**SAMPLES, **options):
            return 101
    except InvalidStatus as error:
        return int(error.response.status_code)


def recorded(client: Any, audio: bytes, **options: Any) -> list[Any]:
    """The error that sending a recording raises."""
    try:
        client.listen.v1.media.transcribe_file(request=audio, request_options={"max_retries": 0}, **options)
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None), getattr(error, "body", None)]
    return ["answered"]


def main(host: str, recording: Path, key: str) -> None:
    """Use the service at this host and port."""
    http, websocket = f"https://{host}", f"wss://{host}"
    here = DeepgramClientEnvironment(base=http, production=websocket, agent=websocket, agent_rest=http)
    good, wrong = (DeepgramClient(api_key=each, environment=here) for each in (key, "wrong"))
    audio = recording.read_bytes()
    told = {
        "off": live(good, diarize="true", redact="", detect_entities="false", language="multi"),
        "redact": live(good, redact="pci"),
        "language": recorded(good, audio, language="de"),
        "no audio": recorded(good, b"nothing that can be heard"),
        "wrong key": live(wrong),
        "wrong key, recorded": recorded(wrong, audio),
    }
    with good.listen.v1.connect(**SAMPLES):
        told["full"] = live(good)
        told["full, recorded"] = recorded(good, audio)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
