"""The site of the documentation: what it is strict about, and what it makes of files beside docs/."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as far as the site needs it, with links on the tour that lead nowhere."""
    place = tmp_path_factory.mktemp("clone")
    for folder in ("docs", "scripts"):
        shutil.copytree(ROOT / folder, place / folder)
    for entry in ROOT.iterdir():
        if not (place / entry.name).exists() and entry.name not in (".git", ".venv", "site"):
            (place / entry.name).symlink_to(entry)
    with (place / "docs" / "tour.md").open("a", encoding="utf-8") as tour:
        tour.write("[a](nowhere.md) [b](reference/protocol.md#no-heading) [c](../streamer/nothing.py)\n")
    (place / "docs" / "how-to" / "forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def done(clone: Path) -> subprocess.CompletedProcess[str]:
    """It was built, as `make docs` does it."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_dead_links_fail_it(done: subprocess.CompletedProcess[str]) -> None:
    """To a page, a heading or a source; so does a page without a place in the navigation. Nothing else is wrong."""
    assert done.returncode == 1
    for word in ("nowhere.md", "#no-heading", "streamer/nothing.py", "how-to/forgotten.md"):
        assert word in done.stderr
    assert done.stderr.count("WARNING") == 4


@pytest.mark.usefixtures("done")
def test_what_lies_beside_the_pages_is_part_of_it(clone: Path) -> None:
    """The API from docstrings, the changelog, and sources that pages link to; nothing of other servers."""
    site = clone / "site"
    assert "Opens a session" in (site / "reference" / "python-api.html").read_text(encoding="utf-8")
    guide = (site / "how-to" / "command-line.html").read_text(encoding="utf-8")
    assert 'href="../source/streamer/cues.py.html"' in guide
    assert "make_cues" in (site / "source" / "streamer" / "cues.py.html").read_text(encoding="utf-8")
    assert 'href="../how-to/testing.html"' in (site / "project" / "changelog.html").read_text(encoding="utf-8")
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert not [page for page in pages if 'src="http' in page or '<link href="http' in page or "url(http" in page]
