"""The site of the documentation: its checks, and its pages of files outside docs/."""

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
    """Provide the files that the site needs, with dead links on the tour."""
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
    """Build the site in the same way as `make docs`."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_dead_links_fail_it(done: subprocess.CompletedProcess[str]) -> None:
    """Links to missing pages, headings or files fail the build, and so does a page outside the navigation."""
    assert done.returncode == 1
    for word in ("nowhere.md", "#no-heading", "streamer/nothing.py", "how-to/forgotten.md"):
        assert word in done.stderr
    assert done.stderr.count("WARNING") == 4


@pytest.mark.usefixtures("done")
def test_what_lies_beside_the_pages_is_part_of_it(clone: Path) -> None:
    """The site has the API, the changelog and linked source files, and loads nothing from other servers."""
    site = clone / "site"
    assert "Open a session" in (site / "reference" / "python-api.html").read_text(encoding="utf-8")
    guide = (site / "how-to" / "command-line.html").read_text(encoding="utf-8")
    assert 'href="../source/streamer/base/cues.py.html"' in guide
    assert "make_cues" in (site / "source" / "streamer" / "base" / "cues.py.html").read_text(encoding="utf-8")
    assert 'href="../how-to/testing.html"' in (site / "project" / "changelog.html").read_text(encoding="utf-8")
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert not [page for page in pages if 'src="http' in page or '<link href="http' in page or "url(http" in page]
