"""The picture of the architecture is up to date, and shows every room."""

from __future__ import annotations

import re

from tests.project import DOCS, ROOT
from tests.scripts.program import run

PAGE = DOCS / "explanation" / "architecture.md"
PACKAGES = [ROOT / "streamer", ROOT / "streamer" / "bridge"]


def test_the_picture_is_that_of_the_script() -> None:
    """The script would draw the same picture."""
    done = run("docs/architecture_picture.py", "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_every_room_is_drawn_and_has_a_paragraph() -> None:
    """Every folder of the code is in the picture, and has a paragraph."""
    rooms = [path.relative_to(ROOT / "streamer").as_posix() for home in PACKAGES for path in home.iterdir()]
    rooms = [room for room in rooms if (ROOT / "streamer" / room).is_dir() and "__" not in room and room != "bridge"]
    drawn = (DOCS / "pictures" / "architecture.svg").read_text(encoding="utf-8")
    names = {name for text in re.findall(r'class="name"[^>]*>([^<]*)<', drawn) for name in text.split(", ")}
    page = PAGE.read_text(encoding="utf-8")
    assert len(rooms) > 15
    assert [room for room in rooms if room not in names] == []
    assert [room for room in rooms if f"**`{room}/`**" not in page] == []
