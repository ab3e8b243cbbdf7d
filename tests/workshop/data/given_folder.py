"""A folder of given speech: two utterances of train, one of dev, a noise and a room."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import soundfile

HEADER = "shard\tmember\tseconds\tcorpus\tspeaker\ttext\n"


def wav(seconds: float, seed: int) -> bytes:
    """Return a file of noise."""
    stream = io.BytesIO()
    noise = np.random.default_rng(seed).normal(0, 0.1, int(16000 * seconds))
    soundfile.write(stream, noise, 16000, format="WAV", subtype="PCM_16")
    return stream.getvalue()


def shard(path: Path, members: dict[str, bytes]) -> None:
    """Write a tar archive of these files."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def make_given(folder: Path) -> Path:
    """Write the folder."""
    folder.mkdir()
    shard(folder / "t.tar", {"a.wav": wav(0.5, 1), "b.wav": wav(0.7, 2)})
    shard(folder / "d.tar", {"c.wav": wav(0.6, 3)})
    shard(folder / "noise.tar", {"n.wav": wav(0.2, 4)})
    shard(folder / "rooms.tar", {"r.wav": wav(0.1, 5)})
    (folder / "train.tsv").write_text(
        HEADER + "t.tar\ta.wav\t0.5\tx\ts1\tGOOD MORNING\nt.tar\tb.wav\t0.7\tx\ts1\tIT'S LATE\n"
    )
    (folder / "dev.tsv").write_text(HEADER + "d.tar\tc.wav\t0.6\tx\ts2\tGOOD EVENING\n")
    return folder
