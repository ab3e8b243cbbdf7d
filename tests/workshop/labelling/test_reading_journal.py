"""What was read is kept line by line, so that a run that was stopped anywhere can go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from workshop.labelling.agreement import Heard
from workshop.labelling.cutting import CuttingRule, Piece
from workshop.labelling.reading_journal import JOURNAL, HeardPiece, Journal, JournalError, all_pieces

WITNESSES = {"one": "a1", "two": "b2"}
RULE = CuttingRule()
PIECE = HeardPiece(Piece(0, 16_000, 0.8), (Heard(("it's", "late"), "", True, -0.1, 0.2), Heard(("late",), "en", False)))


def write(folder: Path) -> Path:
    """Write a journal with a recording that is complete, one that is not, and one that cannot be read."""
    with Journal(folder, WITNESSES, RULE) as journal:
        journal.add("a.wav", PIECE)
        journal.finish("a.wav", 1.5)
        journal.add("b.wav", PIECE)
        journal.fail("c.wav", "c.wav is damaged.")
    return folder / JOURNAL


def test_a_journal_is_continued(tmp_path: Path) -> None:
    """All is known again. What could not be read is tried again."""
    path = write(tmp_path)
    before = path.read_bytes()
    with Journal(tmp_path, WITNESSES, RULE) as journal:
        assert (journal.of("a.wav").complete, journal.of("a.wav").seconds) == (True, 1.5)
        assert (journal.of("b.wav").complete, journal.of("b.wav").pieces) == (False, [PIECE])
        assert (journal.of("c.wav").complete, journal.of("c.wav").error) == (False, "")
        assert all_pieces(map(journal.of, ("a.wav", "b.wav", "d.wav"))) == [PIECE, PIECE]
        journal.finish("b.wav", 2.0)
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("cut", [1, 2, 60])
def test_a_part_of_a_line_is_left_out(tmp_path: Path, cut: int) -> None:
    """A killed process may have written it."""
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines(keepends=True)[1][:-cut])
    with Journal(tmp_path, WITNESSES, RULE):
        pass
    assert path.read_bytes() == whole


def test_a_journal_of_other_witnesses_is_refused(tmp_path: Path) -> None:
    """Others, the same ones in another order, and one whose files were changed."""
    before = write(tmp_path).read_bytes()
    for others in ({"one": "a1"}, {"two": "b2", "one": "a1"}, {"one": "a1", "two": "b3"}):
        with pytest.raises(JournalError, match="is of other witnesses") as error:
            Journal(tmp_path, others, RULE)
        assert "one a1, two b2" in str(error.value)
    assert (tmp_path / JOURNAL).read_bytes() == before


def test_a_journal_of_other_pieces_is_refused(tmp_path: Path) -> None:
    """The pieces of a recording would not fit together."""
    write(tmp_path)
    with pytest.raises(JournalError, match="give another folder"):
        Journal(tmp_path, WITNESSES, CuttingRule(longest_s=10))


@pytest.mark.parametrize("line", ["{}", "[]", "no JSON", '{"recording": "a.wav", "heard": [{"no": 1}]}'])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    """Its number is in the message."""
    path = write(tmp_path)
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(JournalError, match="line 6"):
        Journal(tmp_path, WITNESSES, RULE)


def test_two_processes_do_not_write_it_at_a_time(tmp_path: Path) -> None:
    """The second one is refused, and may open it when the first has closed it."""
    with Journal(tmp_path, WITNESSES, RULE), pytest.raises(JournalError, match="another process"):
        Journal(tmp_path, WITNESSES, RULE)
    with Journal(tmp_path, WITNESSES, RULE):
        pass
