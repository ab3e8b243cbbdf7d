"""Measures one encoder with several heads beside the undivided recogniser: latency and throughput.

    python scripts/measure/heads.py [--streams 1,8,32] [--seconds 5]

The script starts the embedded Triton with four arrangements: fused (`streaming_asr`), router (`asr_heads`), direct (the
same ensemble without the router) and scripted (one model that calls the steps). Each gets the same speech in a closed
loop. Then it starts another Triton, with one instance of the encoder and two of each head. It prints Markdown tables of
ratios to the first arrangement. Client and server share the machine, so only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from streamer.audio.audio_file import read_audio
from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.package import shipped
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.repository import CONFIG, asr_repository, config_text, model_config, reconfigure
from streamer.bridge.triton.server import TritonServer

FUSED, ROUTER, DIRECT, SCRIPTED = MODEL, "asr_heads", "asr_direct", "asr_scripted"
ARRANGEMENTS = (FUSED, ROUTER, DIRECT, SCRIPTED)
NAMES = {FUSED: "fused", ROUTER: "router", DIRECT: "direct", SCRIPTED: "scripted"}
HEADS = ("activity_head", "transcript_head")
SAMPLES = 5120  # 320 ms
PATIENCE_S = 20.0  # the limit for an answer, because a scripted model may hang
START_S = 180.0  # the limit for the start, because there are many processes and the machine may be busy
_SCRIPT = """
import triton_python_backend_utils as pb_utils
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            try:
                response = self.answer(request)
            except Exception as error:
                response = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
            request.get_response_sender().send(response, flags=FINAL)

    def answer(self, request):
        options = pb_utils.get_input_tensor_by_name(request, "OPTIONS")
        audio = pb_utils.get_input_tensor_by_name(request, "AUDIO")
        encoded = self.ask(request, "speech_encoder", ["PASSAGE", "FRAMES", "ENERGIES"], [audio, options])
        passage, frames, energies = (pb_utils.get_output_tensor_by_name(encoded, name)
                                     for name in ("PASSAGE", "FRAMES", "ENERGIES"))
        followed = self.ask(request, "activity_head", ["ACTIVITY"], [passage, energies])
        activity = pb_utils.get_output_tensor_by_name(followed, "ACTIVITY")
        told = self.ask(request, "transcript_head", ["EVENTS"], [passage, frames, activity, options], decoupled=True)
        return pb_utils.InferenceResponse([pb_utils.get_output_tensor_by_name(told, "EVENTS")])

    def ask(self, request, model, outputs, inputs, decoupled=False):
        # The steps need the id of the sequence, START and END, which do not reach them by themselves.
        asked = pb_utils.InferenceRequest(model_name=model, requested_output_names=outputs, inputs=inputs,
                                          correlation_id=request.correlation_id(), flags=request.flags())
        answers = [asked.exec()] if not decoupled else list(asked.exec(decoupled=True))
        for answer in answers:
            if answer.has_error():
                raise RuntimeError(answer.error().message())
        return next(answer for answer in answers if answer.output_tensors())
"""


def main() -> int:
    """Measure and print the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="1,8,32", help="numbers of streams")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds for each arrangement")
    options = parser.parse_args()
    try:
        streams = tuple(map(int, options.streams.split(",")))
    except ValueError:
        parser.error("give numbers of streams, such as 1,8,32")
    if not (streams and all(1 <= number <= 60 for number in streams) and 0 < options.seconds <= 60):
        parser.error("give 1 to 60 streams and up to 60 seconds")
    speech = read_audio(shipped("audio_samples") / "quilter.ogg").tobytes()
    try:
        results = measure(speech, streams, options.seconds)
        print(table(results, streams))
        _tell(results[FUSED, streams[0]])
        print("\nWith one instance of the encoder and two of each head:\n")
        print(
            table(measure(speech, streams, options.seconds, heads=2, models=(FUSED, ROUTER)), streams, (FUSED, ROUTER))
        )
    except (TritonError, OSError) as error:
        print(f"heads: {error}", file=sys.stderr)
        return 1
    return 0


def _tell(first: Measured | None) -> None:
    if first is not None:
        print(f"\nThe first figure stands for {first.latency_ms:.0f} ms and {first.speed:.1f} s of audio in a second.")


@dataclass(frozen=True)
class Measured:
    """The result of one arrangement with one number of streams."""

    latency_ms: float  # the median of all answers
    speed: float  # seconds of audio in a second, of all streams together


Results = dict[tuple[str, int], Measured | None]
"""The results by arrangement and number of streams; None if it failed."""


def arrangements(folder: Path, heads: int = 1) -> Path:
    """Make a repository with all arrangements. There are `heads` instances of each head."""
    for model in asr_repository().iterdir():
        if model.name in HEADS and heads > 1:
            copy = folder / model.name
            copy.mkdir()
            (copy / "1").symlink_to(model / "1")
            (copy / CONFIG).write_text(config_text(reconfigure(model_config(model), instances=heads)))
        else:
            (folder / model.name).symlink_to(model)
    for name in (DIRECT, SCRIPTED):
        (folder / name / "1").mkdir(parents=True)
    (folder / DIRECT / CONFIG).write_text(_direct_config())
    (folder / SCRIPTED / "1" / "model.py").write_text(_SCRIPT)
    config = reconfigure(model_config(asr_repository() / MODEL), name=SCRIPTED)
    (folder / SCRIPTED / CONFIG).write_text(config_text(config))
    return folder


def measure(
    speech: bytes, streams: tuple[int, ...], seconds: float, *, heads: int = 1, models: tuple[str, ...] = ARRANGEMENTS
) -> Results:
    """Start a Triton with these arrangements, and measure each with these numbers of streams."""
    with tempfile.TemporaryDirectory(prefix="heads-") as folder:
        repository = arrangements(Path(folder), heads)
        with TritonServer(repository, models=models, ready_timeout=START_S) as server:
            return asyncio.run(_measure(server.grpc_address, speech, streams, seconds, models))


def table(results: Results, streams: tuple[int, ...], models: tuple[str, ...] = ARRANGEMENTS) -> str:
    """Return the results as Markdown: latency and throughput, relative to the first arrangement."""
    lines = [
        "| arrangement | "
        + " | ".join(f"{number} stream{'s' * (number > 1)}: latency, throughput" for number in streams)
        + " |",
        "|---" * (1 + len(streams)) + "|",
    ]
    for model in models:
        cells = [_ratio(results[model, number], results[models[0], number]) for number in streams]
        lines.append(f"| {NAMES[model]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ratio(one: Measured | None, first: Measured | None) -> str:
    if one is None or first is None:
        return "failed"
    return f"{one.latency_ms / first.latency_ms:.2f}, {one.speed / first.speed:.2f}"


def _direct_config() -> str:
    """Return the shipped ensemble without its router: both heads read the output of the encoder."""
    config = model_config(asr_repository() / ROUTER)
    config.name = DIRECT
    [router] = [step for step in config.ensemble_scheduling.step if step.model_name == "feature_router"]
    sources = {router.output_map[copy]: router.input_map[copy.partition("_FOR_")[0]] for copy in router.output_map}
    config.ensemble_scheduling.step.remove(router)
    for step in config.ensemble_scheduling.step:
        for name, tensor in list(step.input_map.items()):
            step.input_map[name] = sources.get(tensor, tensor)
    return config_text(config)


async def _measure(
    address: str, speech: bytes, streams: tuple[int, ...], seconds: float, models: tuple[str, ...]
) -> Results:
    results: Results = {}
    for number in streams:
        for model in models:
            try:
                # A scripted model asks for the same answers as an ensemble.
                async with await Link.connect(address, model) as link:
                    link.in_steps = model != FUSED
                    await _drive(link, speech, number, seconds / 4)
                    results[model, number] = await _drive(link, speech, number, seconds)
            except LinkError:
                results[model, number] = None
    return results


async def _drive(link: Link, speech: bytes, streams: int, seconds: float) -> Measured:
    """Send the speech in this many streams for these seconds. Each begins at another place."""
    size = 2 * SAMPLES
    until, latencies = time.monotonic() + seconds, list[float]()

    async def stream(place: int) -> None:
        sequence = link.sequence()
        try:
            while time.monotonic() < until:
                sent_at = time.monotonic()
                await sequence.send((speech[place:] + speech)[:size], timeout=PATIENCE_S)
                latencies.append(time.monotonic() - sent_at)
                place = (place + size) % len(speech)
            await sequence.send(end=True, timeout=PATIENCE_S)
        finally:
            sequence.discard()

    began = time.monotonic()
    await asyncio.gather(*(stream(number * size % len(speech)) for number in range(streams)))
    audio_s = len(latencies) * SAMPLES / SAMPLE_RATE
    return Measured(1000 * median(latencies), audio_s / (time.monotonic() - began))


if __name__ == "__main__":
    sys.exit(main())
