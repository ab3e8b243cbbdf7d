"""The figures of the pages are those that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import ROOT
from tests.scripts.program import run
from workshop.figures.measured import Figure, Figures, read
from workshop.figures.pages import PLACES, NotThere, Place, claims, pages, with_figures

MADE = Figures("any", 2, "abc", "2026-01-01", "none", 0.0, {"most": Figure(97.4, "", ""), "cost": Figure(3.26, "", "")})
PLACE = Place("page.md", "carry <most> sessions, at <cost:.1f> %")


def test_the_pages_have_the_measured_figures() -> None:
    """Every figure about speed and capacity in the pages is that of the file."""
    done = run("docs/figure_pages.py", "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_no_page_claims_more() -> None:
    """Nothing but the file says how many sessions something carries."""
    paths = [ROOT / "README.md", ROOT / "asr_repo/streaming_asr/1/CARD.md", ROOT / "docs/tour.md"]
    paths += sorted((ROOT / "docs/how-to").glob("*.md"))
    for path in paths:
        page = str(path.relative_to(ROOT))
        places = [place for place in PLACES if place.page == page]
        assert list(claims(path.read_text(encoding="utf-8"), places)) == [], page


def test_only_numbers_are_replaced() -> None:
    """A sentence may stand in two lines, and the rest of the page stays as it is."""
    text = "Two cores carry 40\nsessions, at 1.4 % of a core, and 40 more.\n"
    assert with_figures(text, PLACE, MADE) == "Two cores carry 97\nsessions, at 3.3 % of a core, and 40 more.\n"


@pytest.mark.parametrize("text", ["Nothing.", "carry 1 sessions, at 1 % and carry 1 sessions, at 1 %"])
def test_a_sentence_that_is_gone(text: str) -> None:
    """A page that lost the sentence, or has it twice, is a mistake that is told."""
    with pytest.raises(NotThere, match=r"page\.md has [02] times: carry"):
        with_figures(text, PLACE, MADE)


def test_a_claim_elsewhere() -> None:
    """A number of sessions that stands in no place is found."""
    text = "They carry 97 sessions, at 3.3 % of it. One core carries about 40 sessions."
    assert list(claims(text, [PLACE])) == ["carries about 40"]


def test_another_figure_is_noticed(tmp_path: Path) -> None:
    """If the file changes, the pages differ until they are written again."""
    for place in PLACES:
        (tmp_path / place.page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place.page).write_text((ROOT / place.page).read_text(encoding="utf-8"), encoding="utf-8")
    figures = read()
    assert all(text == right for _, text, right in pages(figures, tmp_path))
    changed = Figures(**{**vars(figures), "figures": {**figures.figures, "carried": Figure(31, "", "")}})
    differing = {path.name for path, text, right in pages(changed, tmp_path) if text != right}
    assert differing == {"README.md", "deployment.md", "kustomization.yaml", "settings.yaml"}
