"""Measures what it costs Triton to answer a request with more than one message.

A tiny decoupled sequence model computes nothing and answers 320 ms of audio with the same three events in one of three
ways. Each way is driven in a closed loop over one stream, round after round.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import grpc  # type: ignore[import-untyped]
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.triton import TritonError
from streamer.triton.dialer import CHANNEL_OPTIONS
from streamer.triton.server import TritonServer

WAYS = (
    "one message with all events and FINAL",
    "one message with all events, then an empty FINAL",
    "a message for each event, FINAL on the last",
)
EVENTS = 3
SAMPLES = 5120  # 320 ms
WARM_UP_SECONDS = 0.5
SPARE_SECONDS = 60.0  # in addition to the time of the rounds, before a silent server counts as failed
MODEL = "messages"
CONFIG = """
backend: "python"
max_batch_size: 32
input [ { name: "AUDIO" data_type: TYPE_INT16 dims: [ -1 ] } ]
output [ { name: "EVENTS" data_type: TYPE_STRING dims: [ -1 ] } ]
model_transaction_policy { decoupled: true }
sequence_batching { max_sequence_idle_microseconds: 15000000 oldest { max_candidate_sequences: %d } }
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
# The first sample of a request's audio is the number of the way to answer it.
SOURCE = """
import numpy as np
import triton_python_backend_utils as pb_utils
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
PARTIAL = '{"type":"partial","segment":0,"text":"some words that were heard","stable":4,"audio_ms":960}'
EVENTS = [PARTIAL, '{"type":"speech","state":"end","at_ms":960}', '{"type":"heard","sample":15360,"audio_ms":960}']

def message(events):
    return pb_utils.InferenceResponse([pb_utils.Tensor("EVENTS", np.array([events], dtype=object))])

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            way = pb_utils.get_input_tensor_by_name(request, "AUDIO").as_numpy()[0, 0]
            if way == 0:
                sender.send(message(EVENTS), flags=FINAL)
            elif way == 1:
                sender.send(message(EVENTS))
                sender.send(flags=FINAL)
            else:
                for event in EVENTS[:-1]:
                    sender.send(message([event]))
                sender.send(message(EVENTS[-1:]), flags=FINAL)
"""


class Round(NamedTuple):
    """The measurements of one way in one round."""

    messages: float  # for each request
    rate: float  # requests per second


def cost_of_messages(sequences: int, seconds: float, rounds: int) -> list[list[Round]]:
    """Start a Triton with this model and measure. Returns the rounds of each way."""
    with tempfile.TemporaryDirectory(prefix="messages-") as folder:
        source = Path(folder, MODEL, "1", "model.py")
        source.parent.mkdir(parents=True)
        source.write_text(SOURCE, encoding="utf-8")
        Path(folder, MODEL, "config.pbtxt").write_text(CONFIG % sequences, encoding="utf-8")
        with TritonServer(Path(folder)) as server:
            return asyncio.run(measure(server.grpc_address, sequences, seconds, rounds))


async def measure(address: str, sequences: int, seconds: float, rounds: int) -> list[list[Round]]:
    """Measure the rounds of each way over one stream. Each round begins with another way, so that none is favoured."""
    limit = (seconds * rounds + WARM_UP_SECONDS) * len(WAYS) + SPARE_SECONDS
    found: list[list[Round]] = [[] for _ in WAYS]
    async with grpc.aio.insecure_channel(address, CHANNEL_OPTIONS) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(timeout=limit)
        try:
            for way in range(len(WAYS)):
                await drive(call, way, sequences, WARM_UP_SECONDS)
            for turn in range(rounds * len(WAYS)):
                way = (turn + turn // len(WAYS)) % len(WAYS)
                found[way].append(await drive(call, way, sequences, seconds))
        except grpc.aio.AioRpcError as error:
            raise TritonError(f"the stream to Triton failed: {error.details()}") from error
        finally:  # never cancel: that crashes a server whose model sends several messages for a request
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await call.done_writing()
                while await call.read() is not grpc.aio.EOF:
                    pass
    return found


async def drive(call: Any, way: int, sequences: int, seconds: float) -> Round:
    """Begin sequences, send the next request after each final message, and end the sequences when the time is over."""
    requests = [_request(way, number) for number in range(sequences)]
    began = time.monotonic()
    for request in requests:
        await call.write(request)
        del request.parameters["sequence_start"]
    answered = messages = events = ended = 0
    while ended < sequences:
        message = await call.read()
        if message is grpc.aio.EOF:
            raise TritonError("Triton closed the stream before every request was answered")
        if message.error_message:
            raise TritonError(f"Triton refused a request: {message.error_message}")
        response = message.infer_response
        messages += 1
        events += sum(output.shape[1] for output in response.outputs)
        if not response.parameters["triton_final_response"].bool_param:
            continue
        answered += 1
        request = requests[int(response.id)]
        if "sequence_end" in request.parameters:
            ended += 1
            continue
        if time.monotonic() - began >= seconds:
            request.parameters["sequence_end"].bool_param = True
        await call.write(request)
    if events != answered * EVENTS:
        raise TritonError(f"{answered} requests were answered with {events} events instead of {answered * EVENTS}")
    return Round(messages / answered, answered / (time.monotonic() - began))


def table(found: list[list[Round]]) -> str:
    """A Markdown table that compares each way with the first one in the same round: medians over the rounds."""
    lines = ["| way | messages a request | requests/s, first way = 1 |", "|---|---|---|"]
    for name, rounds in zip(WAYS, found, strict=True):
        ratio = median(each.rate / first.rate for each, first in zip(rounds, found[0], strict=True))
        lines.append(f"| {name} | {median(each.messages for each in rounds):g} | {ratio:.2f} |")
    rate = median(each.rate for each in found[0])
    return "\n".join([*lines, "", f"The first way: {rate:.0f} requests/s (median), which depends on the machine."])


def _request(way: int, number: int) -> Any:
    """The first request of a new sequence; its id is the number of the sequence."""
    request = service_pb2.ModelInferRequest(model_name=MODEL, id=str(number))
    request.inputs.add(name="AUDIO", datatype="INT16", shape=[1, SAMPLES])
    request.raw_input_contents.append(np.full(SAMPLES, way, dtype="<i2").tobytes())
    request.parameters["sequence_id"].int64_param = secrets.randbelow(2**63 - 1) + 1
    request.parameters["sequence_start"].bool_param = True
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    return request
