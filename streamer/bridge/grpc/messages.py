"""The messages of NVIDIA Riva and Google's Speech-to-Text, as far as they are served: facts of the wire, written here.

A client's fields that are not here are unknown, and ignored. The messages have a pool of descriptors of their own, so
that the packages of the vendors can be in the same process (docs/decisions/grpc.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import (  # type: ignore[import-untyped]
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    json_format,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from streamer.base.json_types import JsonObject

# Each message has its fields as name, number and type; * stands before the type of a list. A name after a dot is a
# message or an enum inside another one. Types without a dot in them are of the same package.
Messages = Mapping[str, str]
_MAP: Final = "map"  # from strings to strings
_DURATION: Final = "google.protobuf.Duration"
_TRUTH: Final = "google.protobuf.BoolValue"
_TIME: Final = "google.protobuf.Timestamp"
_ANY: Final = "google.protobuf.Any"
EMPTY: Final = "google.protobuf.Empty"
OPERATION: Final = "google.longrunning.Operation"
_TIMEOUTS: Final = f"speech_start_timeout 1 {_DURATION}, speech_end_timeout 2 {_DURATION}"

_RIVA: Final[Messages] = {
    "StreamingRecognizeRequest": "streaming_config 1 StreamingRecognitionConfig, audio_content 2 bytes, "
    "runtime_config 3 map, id 100 nvidia.riva.RequestId",
    "StreamingRecognitionConfig": "config 1 RecognitionConfig, interim_results 2 bool",
    "RecognitionConfig": "encoding 1 nvidia.riva.AudioEncoding, sample_rate_hertz 2 int32, language_code 3 string, "
    "max_alternatives 4 int32, profanity_filter 5 bool, speech_contexts 6 *SpeechContext, "
    "audio_channel_count 7 int32, enable_word_time_offsets 8 bool, enable_automatic_punctuation 11 bool, "
    "enable_separate_recognition_per_channel 12 bool, model 13 string, "
    "diarization_config 19 SpeakerDiarizationConfig, endpointing_config 25 EndpointingConfig",
    "SpeechContext": "phrases 1 *string, boost 4 float",
    "SpeakerDiarizationConfig": "enable_speaker_diarization 1 bool, max_speaker_count 2 int32",
    "EndpointingConfig": "stop_history 3 int32, stop_history_eou 5 int32",
    "StreamingRecognizeResponse": "results 1 *StreamingRecognitionResult, id 100 nvidia.riva.RequestId",
    "StreamingRecognitionResult": "alternatives 1 *SpeechRecognitionAlternative, is_final 2 bool, stability 3 float, "
    "channel_tag 5 int32, audio_processed 6 float",
    "SpeechRecognitionAlternative": "transcript 1 string, confidence 2 float, words 3 *WordInfo",
    "WordInfo": "start_time 1 int32, end_time 2 int32, word 3 string, confidence 4 float, speaker_tag 5 int32",
    "RecognizeRequest": "config 1 RecognitionConfig, audio 2 bytes, id 100 nvidia.riva.RequestId",
    "RecognizeResponse": "results 1 *SpeechRecognitionResult, id 100 nvidia.riva.RequestId",
    "SpeechRecognitionResult": "alternatives 1 *SpeechRecognitionAlternative, channel_tag 2 int32, "
    "audio_processed 3 float",
    "RivaSpeechRecognitionConfigRequest": "model_name 1 string",
    "RivaSpeechRecognitionConfigResponse": "model_config 1 *RivaSpeechRecognitionConfigResponse.Config",
    "RivaSpeechRecognitionConfigResponse.Config": "model_name 1 string, parameters 2 map",
}
_RIVA_SHARED: Final[Messages] = {"RequestId": "value 1 string"}
_GOOGLE_V1: Final[Messages] = {
    "StreamingRecognizeRequest": "streaming_config 1 StreamingRecognitionConfig, audio_content 2 bytes",
    "StreamingRecognitionConfig": "config 1 RecognitionConfig, single_utterance 2 bool, interim_results 3 bool, "
    "enable_voice_activity_events 5 bool, "
    "voice_activity_timeout 6 StreamingRecognitionConfig.VoiceActivityTimeout",
    "StreamingRecognitionConfig.VoiceActivityTimeout": _TIMEOUTS,
    "RecognitionConfig": "encoding 1 RecognitionConfig.AudioEncoding, sample_rate_hertz 2 int32, "
    "language_code 3 string, max_alternatives 4 int32, profanity_filter 5 bool, speech_contexts 6 *SpeechContext, "
    "audio_channel_count 7 int32, enable_word_time_offsets 8 bool, enable_automatic_punctuation 11 bool, "
    "enable_separate_recognition_per_channel 12 bool, model 13 string, enable_word_confidence 15 bool, "
    "alternative_language_codes 18 *string, diarization_config 19 SpeakerDiarizationConfig, "
    f"adaptation 20 SpeechAdaptation, enable_spoken_punctuation 22 {_TRUTH}",
    "SpeechContext": "phrases 1 *string, boost 4 float",
    "SpeakerDiarizationConfig": "enable_speaker_diarization 1 bool, min_speaker_count 2 int32, "
    "max_speaker_count 3 int32",
    "SpeechAdaptation": "phrase_sets 1 *PhraseSet",
    "PhraseSet": "phrases 2 *PhraseSet.Phrase, boost 4 float",
    "PhraseSet.Phrase": "value 1 string, boost 2 float",
    "StreamingRecognizeResponse": "results 2 *StreamingRecognitionResult, "
    f"speech_event_type 4 StreamingRecognizeResponse.SpeechEventType, speech_event_time 8 {_DURATION}",
    "StreamingRecognitionResult": "alternatives 1 *SpeechRecognitionAlternative, is_final 2 bool, stability 3 float, "
    f"result_end_time 4 {_DURATION}, channel_tag 5 int32, language_code 6 string",
    "SpeechRecognitionAlternative": "transcript 1 string, confidence 2 float, words 3 *WordInfo",
    "WordInfo": f"start_time 1 {_DURATION}, end_time 2 {_DURATION}, word 3 string, confidence 4 float, "
    "speaker_tag 5 int32, speaker_label 6 string",
    "RecognizeRequest": "config 1 RecognitionConfig, audio 2 RecognitionAudio",
    "LongRunningRecognizeRequest": "config 1 RecognitionConfig, audio 2 RecognitionAudio",
    "LongRunningRecognizeResponse": "results 2 *SpeechRecognitionResult",
    "LongRunningRecognizeMetadata": f"progress_percent 1 int32, start_time 2 {_TIME}, last_update_time 3 {_TIME}",
    "RecognitionAudio": "content 1 bytes, uri 2 string",
    "RecognizeResponse": "results 2 *SpeechRecognitionResult",
    "SpeechRecognitionResult": "alternatives 1 *SpeechRecognitionAlternative, channel_tag 2 int32, "
    f"result_end_time 4 {_DURATION}, language_code 5 string",
}
_GOOGLE_V2: Final[Messages] = {
    "StreamingRecognizeRequest": "recognizer 3 string, audio 5 bytes, streaming_config 6 StreamingRecognitionConfig",
    "StreamingRecognitionConfig": "config 1 RecognitionConfig, streaming_features 2 StreamingRecognitionFeatures",
    "StreamingRecognitionFeatures": "enable_voice_activity_events 1 bool, interim_results 2 bool, "
    "voice_activity_timeout 3 StreamingRecognitionFeatures.VoiceActivityTimeout, "
    "endpointing_sensitivity 8 StreamingRecognitionFeatures.EndpointingSensitivity",
    "StreamingRecognitionFeatures.VoiceActivityTimeout": _TIMEOUTS,
    "RecognitionConfig": "features 2 RecognitionFeatures, adaptation 6 SpeechAdaptation, "
    "auto_decoding_config 7 AutoDetectDecodingConfig, explicit_decoding_config 8 ExplicitDecodingConfig, "
    "model 9 string, language_codes 10 *string",
    "AutoDetectDecodingConfig": "",
    "ExplicitDecodingConfig": "encoding 1 ExplicitDecodingConfig.AudioEncoding, sample_rate_hertz 2 int32, "
    "audio_channel_count 3 int32",
    "RecognitionFeatures": "profanity_filter 1 bool, enable_word_time_offsets 2 bool, enable_word_confidence 3 bool, "
    "enable_automatic_punctuation 4 bool, diarization_config 9 SpeakerDiarizationConfig, "
    "enable_spoken_punctuation 14 bool, max_alternatives 16 int32, "
    "multi_channel_mode 17 RecognitionFeatures.MultiChannelMode",
    "SpeakerDiarizationConfig": "min_speaker_count 2 int32, max_speaker_count 3 int32",
    "SpeechAdaptation": "phrase_sets 1 *SpeechAdaptation.AdaptationPhraseSet",
    "SpeechAdaptation.AdaptationPhraseSet": "inline_phrase_set 2 PhraseSet",
    "PhraseSet": "phrases 3 *PhraseSet.Phrase, boost 4 float",
    "PhraseSet.Phrase": "value 1 string, boost 2 float",
    "StreamingRecognizeResponse": "speech_event_type 3 StreamingRecognizeResponse.SpeechEventType, "
    f"results 6 *StreamingRecognitionResult, speech_event_offset 7 {_DURATION}",
    "StreamingRecognitionResult": "alternatives 1 *SpeechRecognitionAlternative, is_final 2 bool, stability 3 float, "
    f"result_end_offset 4 {_DURATION}, channel_tag 5 int32, language_code 6 string",
    "SpeechRecognitionAlternative": "transcript 1 string, confidence 2 float, words 3 *WordInfo",
    "WordInfo": f"start_offset 1 {_DURATION}, end_offset 2 {_DURATION}, word 3 string, confidence 4 float, "
    "speaker_label 6 string",
    "RecognizeRequest": "recognizer 3 string, config 1 RecognitionConfig, content 5 bytes, uri 6 string",
    "BatchRecognizeRequest": "recognizer 1 string, config 4 RecognitionConfig",
    "RecognizeResponse": "results 3 *SpeechRecognitionResult",
    "SpeechRecognitionResult": "alternatives 1 *SpeechRecognitionAlternative, channel_tag 2 int32, "
    f"result_end_offset 4 {_DURATION}, language_code 5 string",
}
_OPERATIONS: Final[Messages] = {
    "Operation": f"name 1 string, metadata 2 {_ANY}, done 3 bool, error 4 google.rpc.Status, response 5 {_ANY}",
    "GetOperationRequest": "name 1 string",
    "CancelOperationRequest": "name 1 string",
    "DeleteOperationRequest": "name 1 string",
}
# A package stands behind those that its messages need.
PACKAGES: Final[Mapping[str, Messages]] = {
    "google.rpc": {"Status": "code 1 int32, message 2 string"},
    "google.longrunning": _OPERATIONS,
    "nvidia.riva": _RIVA_SHARED,
    "nvidia.riva.asr": _RIVA,
    "google.cloud.speech.v1": _GOOGLE_V1,
    "google.cloud.speech.v2": _GOOGLE_V2,
}
_GOOGLE_V1_ENCODINGS: Final = (
    "ENCODING_UNSPECIFIED LINEAR16 FLAC MULAW AMR AMR_WB OGG_OPUS SPEEX_WITH_HEADER_BYTE MP3 WEBM_OPUS"
)
_GOOGLE_V2_ENCODINGS: Final = (
    "AUDIO_ENCODING_UNSPECIFIED LINEAR16 MULAW ALAW AMR AMR_WB FLAC MP3 OGG_OPUS WEBM_OPUS MP4_AAC M4A_AAC MOV_AAC"
)
# Their values in the order of their numbers, from 0; a number after a value is that of the value.
ENUMS: Final[Mapping[str, str]] = {
    "nvidia.riva.AudioEncoding": "ENCODING_UNSPECIFIED LINEAR_PCM FLAC MULAW OGGOPUS ALAW 20",
    "google.cloud.speech.v1.RecognitionConfig.AudioEncoding": _GOOGLE_V1_ENCODINGS,
    "google.cloud.speech.v1.StreamingRecognizeResponse.SpeechEventType": "SPEECH_EVENT_UNSPECIFIED "
    "END_OF_SINGLE_UTTERANCE SPEECH_ACTIVITY_BEGIN SPEECH_ACTIVITY_END SPEECH_ACTIVITY_TIMEOUT",
    "google.cloud.speech.v2.ExplicitDecodingConfig.AudioEncoding": _GOOGLE_V2_ENCODINGS,
    "google.cloud.speech.v2.RecognitionFeatures.MultiChannelMode": "MULTI_CHANNEL_MODE_UNSPECIFIED "
    "SEPARATE_RECOGNITION_PER_CHANNEL",
    "google.cloud.speech.v2.StreamingRecognitionFeatures.EndpointingSensitivity": "ENDPOINTING_SENSITIVITY_UNSPECIFIED "
    "ENDPOINTING_SENSITIVITY_STANDARD ENDPOINTING_SENSITIVITY_SUPERSHORT ENDPOINTING_SENSITIVITY_SHORT",
    "google.cloud.speech.v2.StreamingRecognizeResponse.SpeechEventType": "SPEECH_EVENT_TYPE_UNSPECIFIED "
    "END_OF_SINGLE_UTTERANCE SPEECH_ACTIVITY_BEGIN SPEECH_ACTIVITY_END",
}


@dataclass(frozen=True)
class Method:
    """One method of a service. `audio`: where a request has its audio; "" if it has none."""

    name: str
    request: str
    response: str
    streams: bool = False
    audio: tuple[str, ...] = ()


_STREAMING: Final = ("StreamingRecognize", "StreamingRecognizeRequest", "StreamingRecognizeResponse", True)
_RECORDED: Final = ("Recognize", "RecognizeRequest", "RecognizeResponse", False)
LONG: Final = "LongRunningRecognize"
BATCH: Final = "BatchRecognize"
OPERATIONS: Final = "google.longrunning.Operations"
GET, CANCEL, DELETE = "GetOperation", "CancelOperation", "DeleteOperation"
CONFIGURATION: Final = "GetRivaSpeechRecognitionConfig"
# The methods of each service, by its whole name.
SERVICES: Final[Mapping[str, tuple[Method, ...]]] = {
    "nvidia.riva.asr.RivaSpeechRecognition": (
        Method(*_STREAMING, ("audio_content",)),
        Method(*_RECORDED, ("audio",)),
        Method(CONFIGURATION, "RivaSpeechRecognitionConfigRequest", "RivaSpeechRecognitionConfigResponse"),
    ),
    "google.cloud.speech.v1.Speech": (
        Method(*_STREAMING, ("audio_content",)),
        Method(*_RECORDED, ("audio", "content")),
        Method(LONG, "LongRunningRecognizeRequest", OPERATION, audio=("audio", "content")),
    ),
    "google.cloud.speech.v2.Speech": (
        Method(*_STREAMING, ("audio",)),
        Method(*_RECORDED, ("content",)),
        Method(BATCH, "BatchRecognizeRequest", OPERATION),
    ),
    OPERATIONS: (
        Method(GET, "GetOperationRequest", OPERATION),
        Method(CANCEL, "CancelOperationRequest", EMPTY),
        Method(DELETE, "DeleteOperationRequest", EMPTY),
    ),
}


class Unreadable(Exception):
    """Bytes that are no message of this kind."""


class Codec:
    """The messages of one method, as plain objects with the names of their fields."""

    def __init__(self, service: str, method: Method) -> None:
        package = service.rpartition(".")[0]
        self._request = message_class(_full_name(package, method.request))
        self._response = message_class(_full_name(package, method.response))
        self._audio = method.audio

    def read(self, data: bytes) -> tuple[JsonObject, bytes]:
        """Return the fields of a request besides its audio, and the audio. Raise Unreadable if it is none."""
        message = self._request()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise Unreadable from error
        audio = b""
        if self._audio:
            *path, name = self._audio
            part = message
            for step in path:
                part = getattr(part, step)
            audio = getattr(part, name)
            part.ClearField(name)
        try:
            fields: JsonObject = json_format.MessageToDict(message, preserving_proto_field_name=True)
        except json_format.Error as error:  # a duration that none can be, for example
            raise Unreadable from error
        return fields, audio

    def write(self, response: str) -> bytes:
        """Return a response, which is JSON with the names of its fields, as bytes."""
        return bytes(self._response(**json.loads(response)).SerializeToString())


def message_class(name: str) -> Any:
    """Return the class of a message by its whole name."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


# How the descriptors are made.

_SHARED: Final = (any_pb2, duration_pb2, empty_pb2, timestamp_pb2, wrappers_pb2)
# The packages whose messages others use, by their whole names.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "google.longrunning": ("google.rpc",),
    "nvidia.riva.asr": ("nvidia.riva",),
    "google.cloud.speech.v1": ("google.longrunning",),
    "google.cloud.speech.v2": ("google.longrunning",),
}
_WHOLE_NAMES: Final = ("google.protobuf.", "google.rpc.", "google.longrunning.", "nvidia.riva.")
_TYPES: Final = {
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}


def _full_name(package: str, kind: str) -> str:
    """Return the whole name of a message that a package names."""
    return kind if kind.startswith(_WHOLE_NAMES) else f"{package}.{kind}"


def file_of(package: str) -> str:
    """Return the name of the file that describes a package."""
    return f"streamer/{package.replace('.', '/')}.proto"


def _file(package: str, messages: Messages) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=file_of(package), package=package, syntax="proto3")
    file.dependency.extend(each.DESCRIPTOR.name for each in _SHARED)
    file.dependency.extend(map(file_of, _NEEDED.get(package, ())))
    made: dict[str, descriptor_pb2.DescriptorProto] = {}
    for name, fields in messages.items():
        outer, _, inner = name.rpartition(".")
        place = made[outer].nested_type if outer else file.message_type
        message = made[name] = place.add(name=inner)
        for field in filter(None, fields.split(", ")):
            _add_field(message, package, name, *field.split())
    for full_name, values in ENUMS.items():
        outer, _, inner = full_name.removeprefix(f"{package}.").rpartition(".")
        if full_name.startswith(f"{package}.") and (outer in made or not outer):
            _fill((made[outer] if outer else file).enum_type.add(name=inner), values)
    for service, methods in SERVICES.items():
        if service.rpartition(".")[0] == package:
            described = file.service.add(name=service.rpartition(".")[2])
            for method in methods:
                described.method.add(
                    name=method.name,
                    input_type=f".{_full_name(package, method.request)}",
                    output_type=f".{_full_name(package, method.response)}",
                    client_streaming=method.streams,
                    server_streaming=method.streams,
                )
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, package: str, owner: str, name: str, number: str, kind: str
) -> None:
    field = message.field.add(name=name, number=int(number))
    many = kind.startswith("*") or kind == _MAP
    field.label = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    if kind == _MAP:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, package, owner, "key", "1", "string")
        _add_field(entry, package, owner, "value", "2", "string")
        kind = f"{owner}.{entry.name}"
    if kind in _TYPES:
        field.type = _TYPES[kind]
        return
    full_name = _full_name(package, kind)
    field.type = field.TYPE_ENUM if full_name in ENUMS else field.TYPE_MESSAGE
    field.type_name = f".{full_name}"


def _fill(enum: descriptor_pb2.EnumDescriptorProto, values: str) -> None:
    for word in values.split():
        if word.isdecimal():
            enum.value[-1].number = int(word)
        else:
            enum.value.add(name=word, number=len(enum.value))


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for shared in _SHARED:
        pool.AddSerializedFile(shared.DESCRIPTOR.serialized_pb)
    for package, messages in PACKAGES.items():
        pool.AddSerializedFile(_file(package, messages).SerializeToString())
    return pool


POOL: Final = _pool()
