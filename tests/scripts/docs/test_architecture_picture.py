"""The picture of the architecture is up to date, and shows every room."""

from __future__ import annotations

import re

from tests.project import DOCS, ROOT
from tests.scripts.program import run


def test_the_picture_is_that_of_the_script() -> None:
    """The script would draw the same picture."""
    done = run("docs/architecture_picture.py", "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_every_room_is_drawn() -> None:
    """Every room of the product and every folder of the bridge is in the picture, and so are the other houses."""
    homes = [ROOT / "streamer", ROOT / "streamer" / "bridge"]
    rooms = {path.name for home in homes for path in home.iterdir() if path.is_dir() and "__" not in path.name}
    drawn = (DOCS / "pictures" / "architecture.svg").read_text(encoding="utf-8")
    names = {re.split("[: ]", name)[0] for name in re.findall(r'class="name"[^>]*>([^<]*)<', drawn)}
    assert len(rooms) > 15
    assert rooms | {"workshop", "asr_repo"} <= names
