"""A program with the original openai that sends recordings, in all forms of the answer, and makes mistakes.

The only change is `base_url`. It prints what the client made of the answers, as JSON.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from openai import APIStatusError, AzureOpenAI, OpenAI  # type: ignore[import-not-found,unused-ignore]
from websockets.exceptions import InvalidStatus


def refused(ask: Any) -> list[Any]:
    """The error that this raises."""
    try:
        ask()
    except APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code]
    except InvalidStatus as error:
        return [type(error).__name__, error.response.status_code]
    return ["answered"]


def full(client: Any, recording: Path) -> list[list[Any]]:
    """The errors of a realtime session, and of a recording, beside the only session that the service takes."""

    def another() -> None:
        with connect(extra_query={"intent": "transcription"}):
            pass

    connect = client.realtime.connect
    with connect(extra_query={"intent": "transcription"}) as session:
        session.recv()
        session.input_audio_buffer.append(audio=base64.b64encode(bytes(4_800)).decode())
        session.session.update(session={"type": "transcription"})
        session.recv()  # now the audio has been heard: only then the session needs a place
        beside = client.audio.transcriptions
        return [refused(another), refused(lambda: beside.create(file=recording.open("rb"), model="whisper-1"))]


def with_secret(client: Any, recording: Path) -> list[Any]:
    """What a page gets with a client secret: the settings of its realtime session, and a recording's text."""
    settings = {"format": {"type": "audio/pcmu"}, "turn_detection": None}
    wanted = {"type": "transcription", "audio": {"input": settings}}
    secret = client.realtime.client_secrets.create(
        session=wanted, expires_after={"anchor": "created_at", "seconds": 60}
    )
    page = client.with_options(api_key=secret.value)
    with page.realtime.connect(extra_query={"intent": "transcription"}) as session:
        heard = session.recv().session.audio.input
    text = page.audio.transcriptions.create(file=recording.open("rb"), model="whisper-1").text
    again = refused(page.realtime.client_secrets.create)
    return [secret.session.type, heard.format.type, heard.turn_detection, text, again]


def main(host: str, recording: Path, key: str = "any") -> None:
    """Use the service at this host and port."""
    scheme = "http" if key == "any" else "https"
    client = OpenAI(base_url=f"{scheme}://{host}/v1", api_key=key, max_retries=0)  # this line is all that changes
    ask = client.audio.transcriptions.create

    def file() -> Any:
        return recording.open("rb")

    def refusals() -> dict[str, list[Any]]:
        wrong = client.with_options(api_key="wrong").audio.transcriptions
        return {
            "language": refused(lambda: ask(file=file(), model="whisper-1", language="de")),
            "no audio": refused(lambda: ask(file=("a.wav", b"nothing that can be heard"), model="whisper-1")),
            "translation": refused(lambda: client.audio.translations.create(file=file(), model="whisper-1")),
            "wrong key": refused(lambda: wrong.create(file=file(), model="whisper-1")),
        }

    told: dict[str, Any] = {"refusals": refusals(), "models": [model.id for model in client.models.list()]}
    told["model"] = client.models.retrieve("some/whisper-1").id
    told["json"] = ask(file=file(), model="whisper-1").text
    for form in ("text", "srt", "vtt"):
        told[form] = ask(file=file(), model="whisper-1", response_format=form)
    asked = {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]}
    told["verbose"] = ask(file=file(), model="whisper-1", **asked).model_dump(mode="json")
    events = [event.model_dump(mode="json") for event in ask(file=file(), model="gpt-4o-transcribe", stream=True)]
    told["events"] = events
    azure = AzureOpenAI(azure_endpoint=f"{scheme}://{host}", api_key=key, api_version="2025-03-01-preview")
    told["azure"] = azure.audio.transcriptions.create(file=file(), model="my-deployment").text
    if key != "any":
        with azure.realtime.connect(model="my-deployment") as session:  # it always encrypts
            told["azure in realtime"] = session.recv().type
        told["secret"] = with_secret(client, recording)
        told["full"] = full(client, recording)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
