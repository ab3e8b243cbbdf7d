"""The start of a model has the weights of a Moonshine: it computes what that computes, where both see the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.networks import moonshine_encoder
from streamer.engine.networks.moonshine_encoder import MoonshineEncoder
from streamer.engine.reader.weights import DECODER_FILE
from streamer.models.library import LibraryError
from tests.engine.reader.random_reader import WIDTH, first_frames, frames_of, random_weights, write_reader
from tests.project import BUNDLE
from workshop.acoustic.moonshine_start import halves_of, reader_folder, start_from
from workshop.data.corpus import CorpusError


@pytest.mark.parametrize("pooled", [1, 2])
def test_the_frames_are_those_of_moonshine(tmp_path: Path, pooled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the statistics of the whole utterance and all of it in view, frames are those of Moonshine's encoder."""
    weights = random_weights()
    write_reader(tmp_path, weights, signed=False)
    encoder = start_from(tmp_path, pooled=pooled).encoder
    assert isinstance(encoder, MoonshineEncoder)
    samples = (np.random.default_rng(1).standard_normal(511 + 20 * 384) * 0.1).astype(np.float32)
    expected = frames_of(weights, samples)
    first = first_frames(weights, samples)
    encoder.stem.level.copy_(torch.tensor([first.mean(), np.square(first).mean()]))
    monkeypatch.setattr(
        moonshine_encoder, "LOUDNESS_PRIOR", 1e7
    )  # so much that the frames so far do not count beside it
    with torch.no_grad():
        found = encoder.frames(torch.from_numpy(samples[None]), torch.tensor([20 // pooled]), 20, 0)
    # Positions turn by nearly the same angles as there.
    np.testing.assert_allclose(found.reshape(20, WIDTH), expected, atol=0.02)


def test_a_start_that_was_written(tmp_path: Path) -> None:
    """A bundle that was made so before is a start, too, up to rounding. One with another encoder is not."""
    write_reader(tmp_path, random_weights(), signed=False)
    made = start_from(tmp_path)
    made.save(tmp_path / "start")
    again = start_from(tmp_path / "start")
    assert again.description == made.description
    for name, weights in made.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weights, atol=1e-3, rtol=1e-3)
    assert all(weight.requires_grad for weight in again.parameters())
    with pytest.raises(CorpusError, match="does not read samples"):
        start_from(BUNDLE)


def test_numbers_are_rotated_in_pairs_as_there() -> None:
    """Neighbours come into both halves of a head, at the same place, and what is not rotated stands behind them."""
    order = np.array(halves_of(8 * 36, 32)).reshape(8, 2, 18)
    assert sorted(order.ravel()) == list(range(8 * 36))
    assert (order[:, 1, :16] - order[:, 0, :16] == 1).all()
    assert (order[:, :, 16:] % 36 >= 32).all()


def test_other_folders_are_refused(tmp_path: Path) -> None:
    """The message says which file is no Moonshine, or which names are known."""
    write_reader(tmp_path, random_weights(), signed=False)
    assert reader_folder(str(tmp_path)) == tmp_path
    (tmp_path / DECODER_FILE).write_bytes(b"no graph")
    with pytest.raises(CorpusError, match=DECODER_FILE):
        start_from(tmp_path)
    with pytest.raises(LibraryError, match="no reader moonshine-tyni is known"):
        reader_folder("moonshine-tyni")
