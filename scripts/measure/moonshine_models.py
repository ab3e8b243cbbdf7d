"""Compares streaming models of Moonshine in the recogniser with moonshine-voice, token for token, reading for reading.

    python -m venv build/moonshine
    build/moonshine/bin/pip install moonshine-voice==0.1.5
    python scripts/measure/moonshine_models.py --python build/moonshine/bin/python [--streams 500] [--fixed]
    python scripts/measure/moonshine_models.py --python build/moonshine/bin/python --size tiny --streams 12
    python scripts/measure/moonshine_models.py --record tests/workshop/graphs/moonshine_readings.json --streams 24 \\
                                               --python build/moonshine/bin/python
    python scripts/measure/moonshine_models.py --cost --size tiny          what it costs, beside nothing else

The models are made for this: small, with random whole weights, in which every sum is exact. So all readings must be
equal, and the exit status is 0 only if they are. Streams begin and end at different times in twelve slots; each segment
is read again by the package, as a stream of its own with the same samples, updated where our readings were. `--fixed`
takes models for one stream at a time, like those of the makers. `--record` writes what the package read into a file for
the tests, which have no such package.

With `--size`, a model has the architecture and the size of a published one and random weights. Its numbers are not
exact, so a segment may differ where two tokens are nearly as likely. The package lets the first reading of a segment
have more tokens than later ones, and such a model never ends by itself; so first readings are left out there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from streamer.audio.audio_file import SAMPLE_RATE, Int16Samples, read_audio
from streamer.base.package import shipped
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_events import StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.models.moonshine_folder import STEPS_MS
from workshop.graphs.exact_icefall import BATCH
from workshop.graphs.exact_moonshine import TOKENS, make_moonshine_folder, tokens_of
from workshop.graphs.moonshine_comparison import MoonshineComparison, ReadSegment, library_texts, read_segments
from workshop.graphs.random_moonshine import SIZES, make_random_folder

STREAMS_OF_A_MODEL = 24  # each group has a model with other weights
COST_SECONDS, COST_STREAMS = 15, (1, 8)


def main() -> int:
    """Compare, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--python", type=Path, metavar="PYTHON", help="a Python that has moonshine-voice")
    add("--streams", type=int, default=500, help="how many streams (500)")
    add("--seconds", type=float, default=8.0, help="the length of a stream, on average (8)")
    add("--fixed", action="store_true", help="models that compute one stream at a time")
    add("--size", choices=[*SIZES], help="a model of this real size")
    add("--cost", action="store_true", help="measure the processor time of a model of real size")
    add("--record", type=Path, metavar="FILE", help="write the readings of the package into this file")
    options = parser.parse_args()
    if options.cost:
        return _cost(options.size or "tiny", fixed=options.fixed)
    if options.python is None or not options.python.exists():
        parser.error("--python must be a Python that has moonshine-voice")
    result, groups = MoonshineComparison(), []
    for seed in range(-(-options.streams // STREAMS_OF_A_MODEL)):
        number = min(STREAMS_OF_A_MODEL, options.streams - seed * STREAMS_OF_A_MODEL)
        with tempfile.TemporaryDirectory() as name:
            folder = _made(Path(name), seed, options.size, fixed=options.fixed)
            segments = read_segments(folder, number, seconds=options.seconds, seed=seed)
            texts = list(library_texts(folder, segments, options.python.absolute()))
        expected = [[_numbers(text, options.size) for text in line] for line in texts]
        if options.size:
            segments = [ReadSegment(each.samples, each.readings[1:]) for each in segments]
            later = [line[1:] for line in expected]
            kept = [place for place, segment in enumerate(segments) if segment.readings]
            segments, expected = [segments[place] for place in kept], [later[place] for place in kept]
        result.add(segments, expected, number)
        groups.append({"seed": seed, "streams": number, "seconds": options.seconds, "readings": expected})
    print(
        f"{result.streams} streams, {result.segments} segments, {result.readings} readings: {result.tokens} tokens of "
        f"{len(result.kinds)} kinds in the last ones, {result.all_tokens} in all; {result.revised} readings changed "
        f"an earlier token; {len(result.different)} segments differ"
    )
    for segment, others in result.different[:3]:
        print(f"  ours: {segment.readings}\n  moonshine-voice: {others}")
    if options.record:
        options.record.write_text(json.dumps(groups, separators=(",", ":")) + "\n", encoding="utf-8")
    return int(bool(result.different))


def _made(folder: Path, seed: int, size: str | None, *, fixed: bool) -> Path:
    batch = 1 if fixed else BATCH
    if size is None:
        return make_moonshine_folder(folder, seed, batch=batch)
    return make_random_folder(folder, SIZES[size], seed, batch=batch)


def _numbers(text: str, size: str | None) -> list[int]:
    """Return the tokens of a text."""
    return (
        [TOKENS.index(token) for token in tokens_of(text)] if size is None else [int(word, 16) for word in text.split()]
    )


def _cost(size: str, *, fixed: bool) -> int:
    """Print the processor time for a second of audio of a stream, alone and among others."""
    speech = read_audio(shipped("audio_samples") / "talk.flac")[: COST_SECONDS * SAMPLE_RATE]
    with tempfile.TemporaryDirectory() as name:
        folder = _made(Path(name), 0, size, fixed=fixed)
        megabytes = sum(path.stat().st_size for path in folder.glob("*.ort")) / 1e6
        for step_ms in STEPS_MS:
            for streams in COST_STREAMS:
                milliseconds = _milliseconds(folder, speech, streams, step_ms)
                kind = "in int8, one by one" if fixed else "in full numbers"
                about = f"{size}, {megabytes:.0f} MB {kind}, steps of {step_ms} ms, {streams} streams"
                print(f"{about}: {milliseconds:.0f} ms of a core for a second of one", flush=True)
    return 0


def _milliseconds(folder: Path, speech: Int16Samples, streams: int, step_ms: int) -> float:
    recogniser = load_public_model(folder, name="cost", slots=streams, idle_limit_s=float("inf"))
    for stream in range(streams):
        recogniser.open(stream, StreamOptions(step_ms=step_ms, search="greedy"))
    step = step_ms * SAMPLE_RATE // 1000
    began = time.process_time()
    for at in range(0, len(speech), step):
        chunks = [Chunk(stream, speech[at : at + step]) for stream in range(streams)]
        for _, answer in recogniser.step(chunks):
            if isinstance(answer, StreamError):
                raise answer
    return 1000 * (time.process_time() - began) / streams / (len(speech) / SAMPLE_RATE)


if __name__ == "__main__":
    sys.exit(main())
