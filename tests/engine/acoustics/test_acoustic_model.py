"""The acoustic model on a CPU computes what the model in torch computes, without torch and the same in any company."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.base.limits import STEP_MS
from streamer.engine.acoustics.acoustic_model import AcousticModel, SpeechModel, load_activity, load_heads
from streamer.engine.acoustics.bundle_files import ACTIVITY_FILE, WEIGHTS_FILE, BundleError, ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, EncoderConfig
from streamer.engine.acoustics.features import CONTEXT, HOP
from streamer.engine.acoustics.streaming_model import Floats
from streamer.engine.network_graphs import Precision
from streamer.engine.networks.acoustic_network import AcousticNetwork, save_activity
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.stream_options import step_for
from streamer.engine.waiting import finish
from tests.project import BUNDLE, ROOT
from tests.samples import pcm

ENCODER = EncoderConfig(outputs=(CtcHead("characters", 2, 3),), stem=8, width=16, layers=2, heads=2, feedforward=16)
DESCRIPTION = ModelDescription("test", ENCODER, {"characters": ["<blank>", "a", "b"]}, (160, 320, 640))
STEP, PIECE = 5120, 1280
TALK = np.frombuffer(pcm("talk.flac"), np.int16)[: 24 * STEP].reshape(2, -1).copy()


def usual_step(model: SpeechModel) -> int:
    """Return the samples of a step of the usual length."""
    return 16 * step_for(STEP_MS, model.step_ms)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a bundle with a small untrained model."""
    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("bundle")
    AcousticNetwork(DESCRIPTION).save(made)
    save_activity(ActivityNetwork(), made)
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> AcousticModel:
    """Provide this model."""
    return AcousticModel.load(folder)


@pytest.mark.parametrize("bundle", ["shipped", "small"])
def test_it_computes_what_torch_computes(bundle: str, folder: Path) -> None:
    """In fractions, steps, whole segments, glances and frames for the heads differ by less than 1e-4."""
    path = BUNDLE if bundle == "shipped" else folder
    models: list[SpeechModel] = [AcousticModel.load(path, precision=Precision.FULL), AcousticNetwork.load(path)]
    results = []
    for each in models:
        state, other = each.make_state(4), each.make_state(4)
        step = usual_step(each)
        each.step(state, [0, 2, 3], np.full((3, step), 99, np.int16))
        each.reset(state, [0, 2])
        steps = [each.step(state, [2, 0], TALK[:, first : first + step]) for first in range(0, 8 * step, step)]
        assert isinstance(each, (AcousticModel, AcousticNetwork))
        frames, energies = each.encode_samples(other, [1, 3], TALK[:, :step])
        found = [*steps, finish(each.whole(TALK[0])), each.emissions(frames), {"frames": frames, "energies": energies}]
        results.append([*found, {"glance": np.array(each.glance(state, 2, TALK[0, : 2 * each.frame_samples]))}])
    for ours, theirs in zip(*results, strict=True):
        assert ours.keys() == theirs.keys()
        for name, array in ours.items():
            atol = 1e-3 if name == "energies" else 1e-4
            np.testing.assert_allclose(array, theirs[name], atol=atol, rtol=0, err_msg=name)


@pytest.mark.parametrize("step", [2560, STEP, 2 * STEP])
@pytest.mark.parametrize("cut", [0, 640, 9 * 640 + 160])
def test_energies_of_pieces_are_not_computed_again(
    step: int, cut: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step has the same bits if the detector has heard its pieces, and then most of its energies are there."""
    plain, model = (AcousticModel.load(folder) for _ in range(2))
    detector = model.detector(3)
    assert detector is not None
    states, slots, heard = (plain.make_state(3), model.make_state(3)), [2, 0], [0, 0]
    computed = np.zeros(0, np.int64)
    energies = model.features.energies

    def counted(samples: Floats) -> Floats:
        nonlocal computed
        computed = np.append(computed, len(samples) * (samples.shape[1] - CONTEXT) // HOP)
        return energies(samples)

    for number in range(4):
        ends = [cut + stream * 1280 + (number + 1) * step for stream in range(2)]
        steps = np.stack([row[end - step : end] for row, end in zip(TALK, ends, strict=True)])
        firsts = [range(before, end - PIECE + 1, PIECE) for before, end in zip(heard, ends, strict=True)]
        detector.compute(slots, [[row[at : at + PIECE] for at in own] for row, own in zip(TALK, firsts, strict=True)])
        heard = [own[-1] + PIECE for own in firsts]
        with monkeypatch.context() as watched:
            watched.setattr(model.features, "energies", counted)
            computed = computed[:0]
            found = model.step(states[1], slots, steps)
        for name, array in plain.step(states[0], slots, steps).items():
            assert np.array_equal(array, found[name])
        # All are computed where a segment begins within the stream, or not with one of its frames, or has long steps.
        known = [step <= STEP and cut % 640 == 0 and (number > 0 or end == step) for end in ends]
        wanted = [end % PIECE if there else step for end, there in zip(ends, known, strict=True)]
        assert computed.sum() == sum(wanted) // HOP


def test_company_does_not_matter() -> None:
    """A stream of the shipped model gets the same bits alone and in a batch, in any slot."""
    model = AcousticModel.load(BUNDLE)
    state, alone = model.make_state(5), model.make_state(1)
    step = usual_step(model)
    model.step(state, [4, 1], TALK[:, -step:])
    for first in range(0, 6 * step, step):
        batch = np.stack([np.roll(TALK[0], 999 * place)[first : first + step] for place in (3, 0, 1, 2)])
        together, single = model.step(state, [4, 2, 1, 0], batch), model.step(alone, [0], batch[1:2])
        assert all(np.array_equal(together[name][1:2], array) for name, array in single.items())


def test_reset_leaves_no_trace_and_no_harm(model: AcousticModel) -> None:
    """A reset sets a slot to zeros and leaves its neighbours alone."""
    state = model.make_state(3)
    model.step(state, [0, 1, 2], np.concatenate([TALK, TALK[:1]])[:, :STEP])
    kept = {name: array[2].copy() for name, array in state.items()}
    model.reset(state, [0, 1])
    for name, array in state.items():
        assert not array[:2].any()
        assert np.array_equal(array[2], kept[name])


def test_a_glance_changes_no_state(model: AcousticModel) -> None:
    """A glance gives the activity that the step will have in these frames, and changes no state."""
    state = model.make_state(4)
    model.step(state, [3, 1], TALK[:, :STEP])
    before = {name: array.copy() for name, array in state.items()}
    seen = model.glance(state, 1, TALK[1, STEP : STEP + 1920])
    assert all(np.array_equal(array, before[name]) for name, array in state.items())
    wanted = model.step(state, [3, 1], TALK[:, STEP : 2 * STEP])["activity"][1, :3, 0]
    np.testing.assert_allclose(seen, np.exp(wanted), atol=1e-6)


def test_wrong_lengths_are_refused(model: AcousticModel) -> None:
    """Samples that do not fill whole frames are an error, and so is an empty segment."""
    for wrong in (0, 639):
        with pytest.raises(ValueError, match="multiple of 640 samples"):
            finish(model.whole(TALK[0, :wrong]))
    with pytest.raises(ValueError, match="multiple of 640 samples"):
        model.step(model.make_state(1), [0], TALK[:1, :1000])


def test_a_model_may_lack_the_activity_network(tmp_path: Path) -> None:
    """Without the file, or if the network is not wanted, there is no activity and no detector."""
    AcousticNetwork(DESCRIPTION).save(tmp_path)
    assert load_activity(tmp_path) is None
    save_activity(ActivityNetwork(), tmp_path)
    for model in (AcousticModel.load(tmp_path, activity=False), AcousticNetwork.load(tmp_path, activity=False)):
        assert model.detector(2) is None
        assert model.glance(model.make_state(1), 0, TALK[0, :640]) == []
        assert "activity" not in model.step(model.make_state(1), [0], TALK[:1, :STEP])


def test_weights_that_do_not_fit_are_named(tmp_path: Path, folder: Path) -> None:
    """Weights of another model, and an activity file with other weights, are refused by name."""
    AcousticNetwork(DESCRIPTION).save(tmp_path)
    (tmp_path / ACTIVITY_FILE).write_bytes((folder / WEIGHTS_FILE).read_bytes())
    with pytest.raises(BundleError, match=ACTIVITY_FILE):
        AcousticModel.load(tmp_path)
    (tmp_path / WEIGHTS_FILE).write_bytes((folder / ACTIVITY_FILE).read_bytes())
    for load in (lambda path: AcousticModel.load(path, activity=False), load_heads, AcousticNetwork.load):
        with pytest.raises(BundleError, match=WEIGHTS_FILE):
            load(tmp_path)


def test_it_needs_no_torch() -> None:
    """The model is loaded and computes a step where torch is not installed."""
    code = (
        "import sys; sys.modules['torch'] = None; import numpy as np; "
        "from streamer.engine.acoustics.acoustic_model import AcousticModel; "
        f"model = AcousticModel.load({str(BUNDLE)!r}); "
        "step = np.zeros((1, 4 * model.frame_samples), np.int16); "
        "print(*sorted(model.step(model.make_state(1), [0], step)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.split(), done.stderr) == (["activity", "characters", "phones"], "")
