"""A grown model says the same as the one that it was made from, and learns."""

from __future__ import annotations

import pytest
import torch

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.workshop.acoustic.tiny_run import ENCODER, NAMES
from workshop.acoustic.growth import Growth, grown
from workshop.data.corpus import CorpusError


def model() -> AcousticNetwork:
    """Make a model whose norms are not those of a fresh one."""
    torch.manual_seed(0)
    made = AcousticNetwork(ModelDescription("test", ENCODER, NAMES, (320,)))
    with torch.no_grad():
        for name, values in made.encoder.blocks.named_parameters():
            if ".norm.weight" in name:
                values.uniform_(0.5, 2.0)
            if ".norm.bias" in name:
                values.uniform_(-1.0, 1.0)
    return made.eval()


@pytest.mark.parametrize("growth", [Growth(1, 16), Growth(2, 24), Growth(3, 16)])
def test_it_says_the_same_as_before(growth: Growth) -> None:
    """All heads give what they gave before, in chunks and over whole utterances."""
    small = model()
    large = grown(small, growth).eval()
    assert large.description.encoder.layers == growth.times * ENCODER.layers
    assert large.description.encoder.feedforward == growth.feedforward
    audio, lengths = torch.randn(2, 20 * 640) / 10, torch.tensor([20, 15])
    for chunk in (0, 4):
        before, after = small(audio, lengths, chunk, 8), large(audio, lengths, chunk, 8)
        for head, emissions in before.items():
            torch.testing.assert_close(after[head], emissions, atol=1e-3, rtol=1e-3)


def test_what_is_new_learns() -> None:
    """A gradient reaches every part that adds nothing yet."""
    large = grown(model(), Growth(2, 24)).train()
    large(torch.randn(1, 12800) / 10, torch.tensor([20]))["phones"][..., 1].sum().backward()
    for name in ("1.before.3", "3.attention.merge"):
        last = large.encoder.blocks.get_parameter(f"{name}.weight")
        assert not last.any()
        assert last.grad is not None
        assert last.grad.any()
    wider = large.encoder.blocks.get_parameter("0.after.3.weight").grad
    assert wider is not None
    assert wider[:, 16:].any()


@pytest.mark.parametrize("growth", [Growth(0, 16), Growth(2, 8)])
def test_it_does_not_become_smaller(growth: Growth) -> None:
    """Fewer blocks or numbers are refused."""
    with pytest.raises(CorpusError, match="1 or more times the blocks, and to 16 or more numbers"):
        grown(model(), growth)
