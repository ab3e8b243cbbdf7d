"""The moving picture of the README is drawn from the recorded run."""

from __future__ import annotations

import json
import re

from tests.project import DOCS
from tests.scripts.program import run

PICTURE = DOCS / "pictures" / "writing.svg"


def test_the_picture_is_that_of_the_recorded_run() -> None:
    """The script would draw the same picture."""
    done = run("docs/writing_picture.py", "draw", "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_picture_ends_with_what_stayed_on_the_terminal() -> None:
    """The picture shows every final in order, is small, and loads nothing from other servers."""
    _, *events = map(json.loads, (DOCS / "pictures" / "writing.cast").read_text(encoding="utf-8").splitlines())
    finals = [data for _, kind, data in events if kind == "o" and data.endswith("\n")]
    picture = PICTURE.read_text(encoding="utf-8")
    [described] = re.findall(r'<desc id="d">(.*?)</desc>', picture)
    assert described.split() == re.sub(r"\x1b\[[0-9]*[A-Za-z]", "", "".join(finals)).replace("'", "&#x27;").split()
    assert len(picture) < 300_000
    assert set(re.findall(r"https?://[^\"]+", picture)) == {"http://www.w3.org/2000/svg"}
