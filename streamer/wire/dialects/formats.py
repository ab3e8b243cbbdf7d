"""The table of all dialects: a new one is a module, and an entry here. Paths, metrics and `serve --root` follow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamer.wire.dialects.assemblyai import AssemblyAI
from streamer.wire.dialects.azure import Azure
from streamer.wire.dialects.deepgram import DeepgramLive
from streamer.wire.dialects.deepgram_flux import DeepgramFlux
from streamer.wire.dialects.dialect import Dialect
from streamer.wire.dialects.elevenlabs import ElevenLabs
from streamer.wire.dialects.openai_realtime import OpenAIRealtime
from streamer.wire.dialects.sherpa_onnx import SherpaOnnx
from streamer.wire.dialects.soniox import Soniox
from streamer.wire.dialects.speechmatics import Speechmatics
from streamer.wire.dialects.speechmatics_agent import SpeechmaticsAgent
from streamer.wire.dialects.twilio import Twilio
from streamer.wire.dialects.vosk import Vosk
from streamer.wire.dialects.whisperlive import WhisperLive
from streamer.wire.dialects.whisperlivekit import WhisperLiveKit

_DIALECTS: Final = (
    DeepgramLive,
    DeepgramFlux,
    AssemblyAI,
    ElevenLabs,
    Azure,
    Speechmatics,
    SpeechmaticsAgent,
    Soniox,
    OpenAIRealtime,
    SherpaOnnx,
    Twilio,
    Vosk,
    WhisperLive,
    WhisperLiveKit,
)
# By the name that people write, such as sherpa-onnx.
FORMATS: Final[Mapping[str, type[Dialect]]] = {kind.protocol.replace("_", "-"): kind for kind in _DIALECTS}
NATIVE: Final = "native"
ROOTS: Final = (NATIVE, *FORMATS)  # what the websocket at / may speak
