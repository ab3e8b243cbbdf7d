"""A program with Azure's Speech SDK, as its users write one: continuous, once, detailed, a phrase list, a conversation.

The only change is the address of the service. It prints what the SDK made of the messages, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import azure.cognitiveservices.speech as speechsdk  # type: ignore[import-not-found,import-untyped,unused-ignore]

PIECE = 3200  # 100 ms
HEADER = 44  # bytes of a WAV file
PATIENCE_S = 60


class Heard:
    """What a recogniser has told."""

    def __init__(self) -> None:
        self.partials: list[str] = []
        self.results: list[dict[str, Any]] = []
        self.cancellations: list[list[str]] = []
        self.speech: list[str] = []
        self.first = threading.Event()
        self.stopped = threading.Event()

    def take_partial(self, event: Any) -> None:
        self.partials.append(event.result.text)
        self.first.set()

    def take_result(self, event: Any) -> None:
        self.results.append(result_of(event.result))

    def take_end(self, event: Any) -> None:
        details = event.cancellation_details
        self.cancellations.append([details.reason.name, details.code.name, details.error_details])
        if details.reason is not speechsdk.CancellationReason.EndOfStream:
            self.stopped.set()

    @property
    def told(self) -> dict[str, Any]:
        """Everything for the one who reads what this program prints."""
        return {
            "partials": self.partials,
            "results": self.results,
            "cancellations": self.cancellations,
            "speech": self.speech,
        }


def result_of(result: Any) -> dict[str, Any]:
    """Return what a user reads of a result."""
    told = {"reason": result.reason.name, "text": result.text, "offset": result.offset, "duration": result.duration}
    if getattr(result, "no_match_details", None) is not None:
        told["no_match"] = result.no_match_details.reason.name
    if getattr(result, "speaker_id", None):
        told["speaker"] = result.speaker_id
    if result.cancellation_details is not None:
        details = result.cancellation_details
        told["cancelled"] = [details.reason.name, details.code.name, details.error_details]
    if result.json and "NBest" in (content := json.loads(result.json)):
        told["best"] = content["NBest"][0]
    return told


def config_of(host: str, key: str, *, language: str = "en-US") -> Any:
    """Return the configuration of a recogniser."""
    # This line is all that changes.
    config = speechsdk.SpeechConfig(host=f"ws://{host}", subscription=key)
    config.speech_recognition_language = language
    return config


def stream_of(rate: int = 16_000) -> Any:
    return speechsdk.audio.PushAudioInputStream(speechsdk.audio.AudioStreamFormat(rate, 16, 1))


def live(recognizer: Any, stream: Any, pcm: bytes, names: tuple[str, str], *, tells: bool = False) -> dict[str, Any]:
    """Speak until the audio ends, and wait for the end. `tells`: say when half of the audio was sent.

    `names`: the events with text that may change, and with text that will not.
    """
    heard = Heard()
    getattr(recognizer, names[0]).connect(heard.take_partial)
    getattr(recognizer, names[1]).connect(heard.take_result)
    recognizer.canceled.connect(heard.take_end)
    recognizer.session_stopped.connect(lambda _: heard.stopped.set())
    if names[0] == "recognizing":
        recognizer.speech_start_detected.connect(lambda _: heard.speech.append("start"))
        recognizer.speech_end_detected.connect(lambda _: heard.speech.append("end"))
        recognizer.start_continuous_recognition()
    else:
        recognizer.start_transcribing_async().get()
    for place in range(0, len(pcm), PIECE):
        stream.write(pcm[place : place + PIECE])
        if tells and place <= len(pcm) // 2 < place + PIECE:
            assert heard.first.wait(PATIENCE_S)  # the SDK sends in a thread of its own
            print("half", flush=True)
    stream.close()
    assert heard.stopped.wait(PATIENCE_S)
    return heard.told


def continuous(host: str, key: str, pcm: bytes, *, rate: int = 16_000, tells: bool = False) -> dict[str, Any]:
    """Recognise a whole stream."""
    stream = stream_of(rate)
    recognizer = speechsdk.SpeechRecognizer(config_of(host, key), speechsdk.audio.AudioConfig(stream=stream))
    told = live(recognizer, stream, pcm, ("recognizing", "recognized"), tells=tells)
    recognizer.stop_continuous_recognition()
    return told


def once(host: str, key: str, recording: Path, times: int = 1, **options: Any) -> list[dict[str, Any]]:
    """Recognise one phrase after another of a file, over one connection."""
    config = config_of(host, key, **options)
    recognizer = speechsdk.SpeechRecognizer(config, speechsdk.audio.AudioConfig(filename=str(recording)))
    return [result_of(recognizer.recognize_once()) for _ in range(times)]


def detailed(host: str, recording: Path, *phrases: str) -> dict[str, Any]:
    """Recognise once with words and their times, and listen for these phrases."""
    config = config_of(host, "any")
    config.output_format = speechsdk.OutputFormat.Detailed
    config.request_word_level_timestamps()
    config.set_property(speechsdk.PropertyId.Speech_SegmentationSilenceTimeoutMs, "700")
    recognizer = speechsdk.SpeechRecognizer(config, speechsdk.audio.AudioConfig(filename=str(recording)))
    grammar = speechsdk.PhraseListGrammar.from_recognizer(recognizer)
    for phrase in phrases:
        grammar.addPhrase(phrase)
    return result_of(recognizer.recognize_once())


def silent(host: str) -> dict[str, Any]:
    """Say nothing."""
    stream = stream_of()
    recognizer = speechsdk.SpeechRecognizer(config_of(host, "any"), speechsdk.audio.AudioConfig(stream=stream))
    stream.write(bytes(6 * 32_000))
    return result_of(recognizer.recognize_once())


def conversation(host: str, pcm: bytes) -> dict[str, Any]:
    """Transcribe a conversation."""
    stream = stream_of()
    audio = speechsdk.audio.AudioConfig(stream=stream)
    transcriber = speechsdk.transcription.ConversationTranscriber(config_of(host, "any"), audio)
    return live(transcriber, stream, pcm, ("transcribing", "transcribed"))


def main(host: str, recording: Path, way: str, key: str = "any", rate: str = "16000") -> None:
    """Use the service at this host and port in one way."""
    pcm = recording.read_bytes()[HEADER if recording.suffix == ".wav" else 0 :]
    told: Any
    if way == "continuous":
        told = continuous(host, key, pcm, rate=int(rate), tells=rate == "16000")
    elif way == "once":
        told = {
            "phrases": once(host, key, recording, 2),
            "detailed": detailed(host, recording),
            "listed": detailed(host, recording, "hello", "goodbye"),
            "silent": silent(host),
            "refused": once(host, key, recording, language="xx-XX"),
        }
    elif way == "key":
        told = once(host, key, recording)
    else:
        told = conversation(host, pcm)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
