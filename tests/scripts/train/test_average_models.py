"""The script that averages models."""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.networks.neural_network import NeuralNetwork
from tests.project import BUNDLE
from tests.scripts.program import run_here

SCRIPT = "train/average_models.py"


def test_the_average_of_language_models_is_a_file(tmp_path: Path) -> None:
    """The average has the requested shares; one sentence names a wrong file."""
    biases = []
    for name in ("a", "b"):
        model = NeuralNetwork(20, 4, 5, "words")
        torch.nn.init.normal_(model.bias)
        model.save(tmp_path / f"{name}.safetensors")
        biases.append(NeuralNetwork.load(tmp_path / f"{name}.safetensors").bias.detach())
    done = run_here(SCRIPT, "both.safetensors", "a.safetensors:3", "b.safetensors:1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = NeuralNetwork.load(tmp_path / "both.safetensors")
    assert found.vocabulary == "words"
    torch.testing.assert_close(found.bias.detach(), 0.75 * biases[0] + 0.25 * biases[1], atol=2e-3, rtol=1e-2)
    done = run_here(SCRIPT, "both.safetensors", "a.safetensors:3", "none.safetensors:1", folder=tmp_path)
    assert done.returncode == 1
    assert "none.safetensors" in done.stderr
    NeuralNetwork(20, 4, 5, "other words").save(tmp_path / "other.safetensors")
    done = run_here(SCRIPT, "both.safetensors", "a.safetensors:3", "other.safetensors:1", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "average_models: the models were trained for different words\n"


def test_the_average_of_a_bundle_with_itself_says_the_same(tmp_path: Path) -> None:
    """A folder is an acoustic model, here the shipped one."""
    shipped = AcousticNetwork.load(BUNDLE)
    shipped.save(tmp_path / "copy")
    done = run_here(SCRIPT, "average", "copy:0.4", "copy:0.6", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for name, weights in AcousticNetwork.load(tmp_path / "average").state_dict().items():
        torch.testing.assert_close(weights, shipped.state_dict()[name])


def test_what_has_no_average_is_named(tmp_path: Path) -> None:
    """A bundle that is not there, and a bundle beside a language model."""
    NeuralNetwork(20, 4, 5, "words").save(tmp_path / "a.safetensors")
    for models, said in (
        (["none:1", f"{BUNDLE}:1"], "none/model.json is missing"),
        ([f"{BUNDLE}:1", "a.safetensors:1"], "a bundle and a file of a language model have no average"),
    ):
        done = run_here(SCRIPT, "both", *models, folder=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"average_models: {said}")


def test_a_share_is_a_number(tmp_path: Path) -> None:
    """The message says what a share must be."""
    done = run_here(SCRIPT, "both.safetensors", "a.safetensors", folder=tmp_path)
    assert done.returncode == 2
    assert "is not a model and its share" in done.stderr
