"""Uses the package of Google's Speech-to-Text, v1 and v2, over a channel of its own.

The program prints what it was told as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.api_core.exceptions import GoogleAPICallError  # type: ignore[import-not-found,unused-ignore]

PIECE = 3200  # bytes
RECOGNIZER = "projects/home/locations/global/recognizers/_"


class Version:
    """One version of the client."""

    def __init__(self, name: str, channel: grpc.Channel) -> None:
        self.two = name == "v2"
        self.speech: Any = importlib.import_module(f"google.cloud.speech_{name}")
        transports = importlib.import_module(f"google.cloud.speech_{name}.services.speech.transports")
        self.client = self.speech.SpeechClient(transport=transports.SpeechGrpcTransport(channel=channel))

    def config(self, **more: Any) -> Any:
        """Return the configuration of the recogniser for samples of 16 bits at 16 kHz."""
        speech = self.speech
        if not self.two:
            linear = speech.RecognitionConfig.AudioEncoding.LINEAR16
            return speech.RecognitionConfig(
                encoding=linear, sample_rate_hertz=16_000, language_code="en-US", model="latest_long", **more
            )
        encoding = speech.ExplicitDecodingConfig.AudioEncoding.LINEAR16
        decoding = speech.ExplicitDecodingConfig(encoding=encoding, sample_rate_hertz=16_000, audio_channel_count=1)
        return speech.RecognitionConfig(
            explicit_decoding_config=decoding,
            language_codes=["en-US"],
            model="long",
            features=speech.RecognitionFeatures(**more),
        )

    def live(self, pieces: list[bytes], config: Any, **features: Any) -> list[Any]:
        """Recognise audio as it is spoken. Returns the responses."""
        speech = self.speech

        def requests() -> Iterator[Any]:
            if self.two:
                ways = {"streaming_features": speech.StreamingRecognitionFeatures(**features)}
                yield speech.StreamingRecognizeRequest(
                    recognizer=RECOGNIZER, streaming_config=speech.StreamingRecognitionConfig(config=config, **ways)
                )
            for number, piece in enumerate(pieces):
                if number == len(pieces) // 2:
                    print("half", flush=True)
                content = {"audio" if self.two else "audio_content": piece}
                yield speech.StreamingRecognizeRequest(**content)
                time.sleep(0.005)

        if self.two:
            return list(self.client.streaming_recognize(requests=requests()))
        settings = speech.StreamingRecognitionConfig(config=config, **features)
        return list(self.client.streaming_recognize(settings, requests()))

    def recorded(self, content: bytes, config: Any) -> Any:
        """Recognise a recording. Returns the response."""
        if self.two:
            return self.client.recognize(
                self.speech.RecognizeRequest(recognizer=RECOGNIZER, config=config, content=content)
            )
        return self.client.recognize(config=config, audio=self.speech.RecognitionAudio(content=content))

    def automatic(self) -> Any:
        """Return a configuration that says nothing about the audio."""
        if self.two:
            return self.speech.RecognitionConfig(auto_decoding_config={}, language_codes=["en-US"])
        return self.speech.RecognitionConfig(language_code="en-US")

    def use(self, recording: Path) -> dict[str, Any]:
        """Use the client in all ways. Returns what it was told."""
        with wave.open(str(recording)) as file:
            audio = file.readframes(file.getnframes())
        pieces = [audio[place : place + PIECE] for place in range(0, len(audio), PIECE)]
        config = self.config(enable_word_time_offsets=True, enable_word_confidence=True)
        responses = self.live(pieces, config, interim_results=True, enable_voice_activity_events=True)
        results = [result for response in responses for result in response.results]
        finals = [result for result in results if result.is_final]
        words = [word for result in finals for word in result.alternatives[0].words]
        begins = [word.start_offset if self.two else word.start_time for word in words]
        # More silence than the client waits for: the service ends the call.
        silence = {"speech_start_timeout": {"seconds": 20}, "speech_end_timeout": {"seconds": 4}}
        waited = self.live(
            [*pieces, *([bytes(PIECE)] * 200)],
            config,
            enable_voice_activity_events=True,
            voice_activity_timeout=silence,
        )
        whole = self.recorded(recording.read_bytes(), self.automatic())
        told = {
            "finals": "".join(result.alternatives[0].transcript for result in finals),
            "interim": [result.alternatives[0].transcript for result in results if not result.is_final],
            "words": [
                [word.word, begin.total_seconds(), word.confidence] for word, begin in zip(words, begins, strict=True)
            ],
            "events": events_in(responses),
            "waited": events_in(waited),
            "before": "".join(part.alternatives[0].transcript for each in waited for part in each.results),
            "recorded": "".join(result.alternatives[0].transcript for result in whole.results),
        }
        if not self.two:
            operation = self.client.long_running_recognize(
                config=config, audio=self.speech.RecognitionAudio(content=recording.read_bytes())
            )
            later = operation.result(timeout=60)
            told["later"] = "".join(result.alternatives[0].transcript for result in later.results)
            told["progress"] = operation.metadata.progress_percent
        try:
            self.recorded(b"RIFF, and nothing else", self.automatic())
        except GoogleAPICallError as error:
            told["refusal"] = [error.grpc_status_code.name, error.message]
        return told


def events_in(responses: list[Any]) -> list[str]:
    """Return the names of what happened besides words."""
    return [response.speech_event_type.name for response in responses if response.speech_event_type]


def main(recording: Path, port: str, root: str, key: str) -> None:
    """Use the service at this port. `root`: the certificate of its authority, or ""."""
    address = f"localhost:{port}"
    if root:
        trust = grpc.ssl_channel_credentials(Path(root).read_bytes())
        channel = grpc.secure_channel(
            address, grpc.composite_channel_credentials(trust, grpc.access_token_call_credentials(key))
        )
    else:
        channel = grpc.insecure_channel(address)
    with channel:
        print(json.dumps({name: Version(name, channel).use(recording) for name in ("v1", "v2")}))


if __name__ == "__main__":
    main(Path(sys.argv[2]), *sys.argv[3:])
