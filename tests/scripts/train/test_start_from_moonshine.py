"""The script that writes the start of a model with the weights of Moonshine."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.engine.reader.random_reader import random_weights, write_reader
from tests.scripts.program import run_here

SCRIPT = "train/start_from_moonshine.py"


def test_the_command_writes_a_bundle_and_the_credit(tmp_path: Path) -> None:
    """The bundle is loaded like any other. Its steps are nearest to the usual ones, and the credit names the makers."""
    write_reader(tmp_path, random_weights(), signed=True)
    start = tmp_path / "start"
    done = run_here(SCRIPT, "--reader", tmp_path, "--to", start)
    assert done.returncode == 0, done.stderr
    network = AcousticNetwork.load(start)
    assert network.step_ms == (144, 336, 624)
    assert [head.name for head in network.description.encoder.heads_of(1)] == ["phones_middle"]
    credit = (start / "CREDIT.md").read_text(encoding="utf-8")
    assert "Moonshine AI" in credit
    assert "MIT License" in credit


def test_an_unknown_reader_is_an_error(tmp_path: Path) -> None:
    """The message says which readers are known."""
    done = run_here(SCRIPT, "--reader", "moonshine-tyni", "--to", tmp_path / "start")
    assert done.returncode == 1
    assert done.stderr.startswith("start_from_moonshine: no reader moonshine-tyni is known")
