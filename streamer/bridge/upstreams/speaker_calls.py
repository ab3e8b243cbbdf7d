"""Asks the model that tells voices apart, in the same Triton as the recogniser of a stream."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]

from streamer.base.codes import FailureCode
from streamer.base.limits import SPEAKERS
from streamer.bridge.session.speakers import LIMIT_S, Answer, Question
from streamer.bridge.triton.link import Link, LinkError

_OUTPUTS: Final = ("TURNS", "UNTIL", "MERGE", "MEMORY", "PIECES")
_LENGTH: Final = 4  # bytes before a string


async def ask_about_speakers(link: Link | None, question: Question, limit_s: float = LIMIT_S) -> Answer:
    """Return the answer. LinkError if there is none, or no such model."""
    if link is None:
        raise LinkError(FailureCode.UNAVAILABLE, "the Triton is away")
    request = service_pb2.ModelInferRequest(model_name=SPEAKERS)
    _add(request, "VOICES", "INT32", 1, np.int32(question.voices).tobytes())
    if question.pieces:
        _add_string(request, "PIECES", question.pieces)
    else:
        _add(request, "AUDIO", "INT16", len(question.pcm) // 2, question.pcm)
        enrolled = -1 if question.enrolled is None else question.enrolled
        place = np.array([question.begin, question.since, question.whole, enrolled], np.int64)
        _add(request, "PLACE", "INT64", len(place), place.tobytes())
        if question.memory:
            _add_string(request, "MEMORY", question.memory)
    for name in _OUTPUTS:
        request.outputs.add(name=name)
    response = await link.infer(request, limit_s)
    contents = zip((output.name for output in response.outputs), response.raw_output_contents, strict=True)
    found = {name: content[_LENGTH:] for name, content in contents}
    try:
        turns = [(int(start), int(end), int(voice)) for start, end, voice in json.loads(found["TURNS"])]
        merge = tuple(int(voice) for voice in json.loads(found["MERGE"]))
        merged = (merge[0], merge[1]) if merge else None
        return Answer(turns, int(json.loads(found["UNTIL"])), found["MEMORY"], found["PIECES"], merged)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise LinkError(FailureCode.FAILED, f"the answer is none about speakers: {error!r}") from error


def _add(request: Any, name: str, kind: str, size: int, content: bytes) -> None:
    request.inputs.add(name=name, datatype=kind, shape=[1, size])
    request.raw_input_contents.append(content)


def _add_string(request: Any, name: str, content: bytes) -> None:
    _add(request, name, "BYTES", 1, len(content).to_bytes(_LENGTH, "little") + content)
