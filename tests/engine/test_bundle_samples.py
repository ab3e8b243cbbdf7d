"""A bundle whose encoder reads samples is served like any other: its frames and steps are those of its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.base.events import Heard, as_json
from streamer.engine.acoustics.acoustic_model import AcousticModel
from streamer.engine.acoustics.acoustics import SlotActivity
from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.bundle import assemble_recogniser, load_recogniser
from streamer.engine.network_graphs import Precision
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.waiting import finish
from streamer.heads.loading import load_activity_head, load_speech_encoder, load_transcript_head
from tests.engine.bundle_of_samples import STEPS_MS as STEPS_OF
from tests.engine.bundle_of_samples import bundle_of_samples
from tests.samples import pcm

STEPS_MS, FRAME_MS = STEPS_OF[2], 48


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide such a bundle."""
    return bundle_of_samples(tmp_path_factory.mktemp("bundles") / "samples")


@pytest.fixture(scope="module")
def recogniser(bundle: Path) -> Recogniser:
    """Provide the recogniser of this bundle, in full precision."""
    return load_recogniser(bundle, slots=4, precision="float32")


def hear(recogniser: Recogniser, size: int, company: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Return the events of six seconds of speech in chunks of this size, beside other streams of another age."""
    audio = np.frombuffer(pcm("talk.flac", 6.0), dtype=np.int16)
    recogniser.open(1, StreamOptions.from_dict(options, recogniser.model.step_ms, list(recogniser.searches)))
    for other in range(2, 2 + company):
        recogniser.open(other, StreamOptions(step_ms=STEPS_MS[other % 3]))
    found = []
    for start in range(0, len(audio), size):
        chunks = [Chunk(1, audio[start : start + size], end=start + size >= len(audio))]
        chunks += [Chunk(other, audio[7 * other * start % 40_000 :][: 4000 * other]) for other in range(2, 2 + company)]
        for index, answer in recogniser.step(chunks):
            assert not isinstance(answer, StreamError), answer
            if index == 0:
                found += [event for event in answer if not isinstance(event, Heard)]
    for other in range(2, 2 + company):
        recogniser.close(other)
    return [json.loads(as_json(event)) for event in found]


def finals(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is final, without confidences, which are rounded."""
    return [
        {name: event[name] for name in ("text", "start_ms", "end_ms")} for event in events if event["type"] == "final"
    ]


@pytest.mark.parametrize("search", ["lexicon", "greedy"])
@pytest.mark.parametrize(("asked", "own"), [(160, 144), (320, 336), (640, 624)])
def test_chunks_and_company_do_not_matter(recogniser: Recogniser, search: str, asked: int, own: int) -> None:
    """A usual step becomes the nearest one of the model. However the audio comes, the finals are the same."""
    options: dict[str, Any] = {"search": search, "step_ms": asked, "endpoint": {"longest_ms": 6000}}
    expected = finals(hear(recogniser, 16 * own, **options))
    assert expected
    for size, company in ((1600, 0), (4801, 3), (96_000, 2)):
        assert finals(hear(recogniser, size, company, **options)) == expected


def test_usual_options_have_its_steps(recogniser: Recogniser) -> None:
    """Whoever opens a stream without asking for a step, or for a usual one, gets one of the model."""
    for options, own in ((None, 336), (StreamOptions(step_ms=640), 624), (StreamOptions(step_ms=144), 144)):
        recogniser.open(1, options)
        assert recogniser.own_step_ms(1) == own
    recogniser.close(1)


def test_times_are_those_of_its_frames(recogniser: Recogniser) -> None:
    """Words begin and end at frames of 48 ms, moved by the calibration, and no time lies behind the audio."""
    events = hear(recogniser, 2560, search="greedy", words=True)
    words = [word for event in events if event["type"] == "final" for word in event["words"]]
    assert len(words) > 3
    starts = [word["start_ms"] for word in words]
    assert starts == sorted(starts)
    assert max(word["end_ms"] for word in words) <= 6000
    moved = {start % FRAME_MS for start in starts[1:]}
    assert len(moved) <= 3  # rounding, and the start of the segment


def test_speech_is_detected_in_pieces_of_whole_frames(recogniser: Recogniser) -> None:
    """The activity has frames of the same length. Speech is reported where it begins, within some frames."""
    recogniser.open(1, StreamOptions(step_ms=336))
    assert recogniser.piece_ms(1) == 2 * FRAME_MS
    assert recogniser.own_step_ms(1) == 336
    recogniser.close(1)
    changes = [event for event in hear(recogniser, 1600) if event["type"] == "speech"]
    assert [event["state"] for event in changes][:1] == ["start"]
    assert changes[0]["at_ms"] < 1500


def test_pauses_are_counted_in_its_frames(bundle: Path, recogniser: Recogniser) -> None:
    """Speech ends after 480 ms of silence: 10 frames of 48 ms, not 12 as with frames of 40 ms. The head agrees."""
    for activity in (recogniser._acoustics, load_activity_head(bundle, slots=1)):
        slots: SlotActivity = activity._activity  # type: ignore[union-attr]
        spoken, silent = [[0.0] * 5], [[-9.0] * 9]
        assert slots.read([3], spoken, [False])[3].speaking
        assert slots.read([3], silent, [False])[3].speaking
        assert not slots.read([3], [[-9.0]], [False])[3].speaking
        slots.reset([3])


def test_a_second_pass_reads_whole_segments(recogniser: Recogniser) -> None:
    """The segment is computed again as one step, the same in any company."""
    first = finals(hear(recogniser, 5000, second_pass=True))
    assert first
    assert finals(hear(recogniser, 1777, 2, second_pass=True)) == first


def test_graphs_compute_what_torch_computes(bundle: Path) -> None:
    """On a CPU, onnxruntime computes all of it: emissions of steps and of whole segments, and glances."""
    in_fractions = AcousticModel.load(bundle, precision=Precision.FULL)
    models: list[AcousticModel | AcousticNetwork] = [in_fractions, AcousticNetwork.load(bundle)]
    states = [model.make_state(3) for model in models]
    audio = np.frombuffer(pcm("talk.flac", 6.0), np.int16).copy()
    for start, own in enumerate((144, 336, 624, 144, 624)):
        samples = np.stack((audio[9000 * start :][: 16 * own], audio[::-1][7000 * start :][: 16 * own]))
        compare(*(model.step(state, [2, 0], samples) for model, state in zip(models, states, strict=True)))
        glanced = (model.glance(state, 2, samples[0, :1536]) for model, state in zip(models, states, strict=True))
        compare(*({"activity": np.array([glance], np.float32)} for glance in glanced))
    compare(*(finish(model.whole(audio[: 90 * 768])) for model in models))
    for model, state in zip(models, states, strict=True):
        model.reset(state, [1])
    encoded = [
        model.encode_samples(state, [1], audio[None, :2304]) for model, state in zip(models, states, strict=True)
    ]
    compare(*(dict(zip(("frames", "energies"), each, strict=True)) for each in encoded))


def compare(found: Emissions, expected: Emissions) -> None:
    """Compare what two models have emitted."""
    assert found.keys() == expected.keys()
    for head, rows in found.items():
        assert rows.size
        np.testing.assert_allclose(rows, expected[head], atol=2e-4)


def test_graphs_and_torch_give_the_same_events(bundle: Path, recogniser: Recogniser) -> None:
    """The recogniser has graphs on a CPU. With torch it hears the same words at the same times."""
    assert isinstance(recogniser.model, AcousticModel)
    network = AcousticNetwork.load(bundle)
    in_torch = assemble_recogniser(bundle, network, None, network.detector(4), slots=4, device="cpu", idle_limit_s=60)
    for options in ({"search": "lexicon"}, {"search": "greedy", "second_pass": True}):
        expected = finals(hear(in_torch, 5000, **options))
        assert finals(hear(recogniser, 5000, 2, **options)) == expected
        assert expected


def test_the_encoder_alone_and_its_heads(bundle: Path) -> None:
    """The encoder, the activity and the transcript as separate models take its steps and frames, too."""
    encoder, heads = load_speech_encoder(bundle, slots=1), load_transcript_head(bundle, slots=1)
    activity = load_activity_head(bundle, slots=1)
    assert encoder.model.frame_samples == heads.model.frame_samples == 768
    assert heads.model.step_ms == STEPS_MS
    assert activity.mels == 80
