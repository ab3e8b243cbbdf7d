"""Uses the package of NVIDIA Riva as its own programs do, for live speech and for recordings.

The program prints what it was told as JSON.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import riva.client  # type: ignore[import-not-found,unused-ignore]

CHUNK = 1600  # frames, as in transcribe_file.py


def configured(**more: Any) -> Any:
    """Return the configuration that transcribe_file.py makes, which says nothing about the audio."""
    config = riva.client.StreamingRecognitionConfig(
        config=riva.client.RecognitionConfig(
            language_code="en-US",
            model="",
            max_alternatives=1,
            profanity_filter=False,
            enable_automatic_punctuation=False,
            verbatim_transcripts=True,
            **more,
        ),
        interim_results=True,
    )
    riva.client.add_word_boosting_to_config(config, None, 4.0)
    riva.client.add_speaker_diarization_to_config(config, False, 3)
    riva.client.add_endpoint_parameters_to_config(config, -1, -1.0, -1, -1, -1.0, -1.0)
    riva.client.add_custom_configuration_to_config(config, "")
    return config


def half_way(chunks: list[bytes]) -> Iterator[bytes]:
    """Yield audio, and say when half of it was sent."""
    for number, chunk in enumerate(chunks):
        if number == len(chunks) // 2:
            print("half", flush=True)
        yield chunk


def main(recording: Path, port: str, root: str, key: str) -> None:
    """Use the service at this port. `root`: the certificate of its authority, or ""."""
    metadata = [["authorization", f"Bearer {key}"]] if key else None
    auth = riva.client.Auth(root or None, bool(root), f"localhost:{port}", metadata)
    service = riva.client.ASRService(auth)
    models = service.stub.GetRivaSpeechRecognitionConfig(
        riva.client.proto.riva_asr_pb2.RivaSpeechRecognitionConfigRequest(), metadata=auth.get_auth_metadata()
    )
    told: dict[str, Any] = {"models": [[each.model_name, each.parameters["type"]] for each in models.model_config]}
    printed = io.StringIO()
    with riva.client.AudioChunkFileIterator(recording, CHUNK) as chunks:
        responses = service.streaming_response_generator(half_way(list(chunks)), configured())
        riva.client.print_streaming(responses, printed, show_intermediate=True)
    told["printed"] = [line for part in printed.getvalue().split("\r") for line in part.split("\n")]
    with riva.client.AudioChunkFileIterator(recording, CHUNK) as chunks:
        config = configured(enable_word_time_offsets=True)
        responses = list(service.streaming_response_generator(chunks, config))
    results = [result for response in responses for result in response.results]
    words = [word for result in results for word in result.alternatives[0].words]
    told["words"] = [[word.word, word.start_time, word.end_time, word.confidence] for word in words]
    told["stabilities"] = sorted({round(result.stability, 1) for result in results if not result.is_final})
    answer = service.offline_recognize(recording.read_bytes(), config.config)
    told["recorded"] = "".join(result.alternatives[0].transcript for result in answer.results)
    try:
        list(service.streaming_response_generator([b"no recording"], configured()))
    except grpc.RpcError as error:
        told["refusal"] = [error.code().name, error.details()]
    print(json.dumps(told))


if __name__ == "__main__":
    # The address, and what it needs to be trusted, is all that changes.
    main(Path(sys.argv[2]), *sys.argv[3:])
