"""The memory of a public model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.samples import pcm
from workshop.graphs.exact_icefall import make_ctc_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder

# The states of the small model: keys, values and attention of three layers, their convolutions, and the first layer's.
KEYS, VALUES, ATTENTION = 16 * 6 + 2 * 8 * 6, 2 * (16 * 4 + 2 * 8 * 4), 16 * 6 + 2 * 8 * 9
CONVOLUTIONS, EMBEDDED = 2 * (8 * 2 + 2 * 12 * 1), 128 * 3 * 19
# The samples before the next window, its first features, the number of steps, and the language.
BEFORE = 120 * 2 + 4 * 13 * 80 + 8 + 8


def test_a_slot_has_the_states_of_the_graph(tmp_path: Path) -> None:
    """A slot is counted exactly, without torch; the other sizes are plausible. A broken folder is an error."""
    folder = make_ctc_folder(tmp_path)
    command = [sys.executable, "-m", "streamer.engine.memory.graph_report", str(folder), "--batch", "4"]
    done = subprocess.run(command, input=pcm("quilter.ogg", 1), capture_output=True, check=True, timeout=60)
    told = json.loads(done.stdout)
    states = 4 * (KEYS + VALUES + ATTENTION + CONVOLUTIONS + EMBEDDED) + 8
    assert told["slot"]["encoder"] == {"main": states + BEFORE, "gpu": 0}
    assert 0 < told["slot"]["search"]["main"] < 1000
    assert told["instance"]["model"]["main"] > (folder / "model.onnx").stat().st_size
    assert 10e6 < told["instance"]["process"]["main"] < 100e6  # torch alone takes more
    (folder / "tokens.txt").unlink()
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"].endswith("tokens.txt is missing: the folder is not complete")


def test_moonshine(tmp_path: Path) -> None:
    """The memory that its decoder reads belongs to the stream, and grows with the segment."""
    command = [sys.executable, "-m", "streamer.engine.memory.graph_report", str(make_moonshine_folder(tmp_path))]
    done = subprocess.run(
        [*command, "--batch", "2"], input=pcm("quilter.ogg", 2), capture_output=True, check=True, timeout=60
    )
    told = json.loads(done.stdout)
    assert told["slot"]["encoder"]["main"] > 4 * (48 * 16 + 79 + 6 * 4 + 10 * 4)
    assert told["stream"]["words"]["main"] > 4 * 16 * 4 * 16  # four steps of 16 frames
    assert told["instance"]["process"]["main"] < 100e6
