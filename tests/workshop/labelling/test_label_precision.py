"""How many words of known speech are kept, and how many of them are wrong."""

from __future__ import annotations

from pathlib import Path

from streamer.commands.accuracy.manifest import AudioLocation, Utterance
from workshop.labelling.agreement import Heard, Limits
from workshop.labelling.cutting import CuttingRule, Piece
from workshop.labelling.folder_labels import Judge
from workshop.labelling.label_precision import Precision, precision_of, precision_table
from workshop.labelling.reading_journal import HeardPiece, Journal


def everything(word: str) -> bool:
    """A lexicon that has every word."""
    return bool(word)


JUDGE = Judge(Limits(), everything)


def utterance(name: str, text: str) -> Utterance:
    """Return an utterance of a speaker of its own."""
    return Utterance(name, "read", name, tuple(text.split()), AudioLocation(Path(name)), text)


def piece(*texts: str, sureness: float = 0.0) -> HeardPiece:
    """Return a piece in which each witness heard another text, and was so sure."""
    heard = (Heard(tuple(text.split()), log_probability=sureness) for text in texts)
    return HeardPiece(Piece(0, 64_000, 3.0), tuple(heard))


def test_the_words_that_are_kept_are_compared_with_the_text() -> None:
    """A word that no piece has is wrong, too."""
    known = utterance("a", "one two three four")
    assert precision_of(known, [piece("one two", "one two"), piece("tree", "tree")], JUDGE) == Precision(4, 4, 2)
    assert precision_of(known, [piece("one two", "one two"), piece("tree", "three")], JUDGE) == Precision(4, 0, 0)
    assert precision_of(known, [], JUDGE) == Precision(4, 0, 0)


def test_the_table_has_a_row_for_each_way_to_keep_words(tmp_path: Path) -> None:
    """A third witness is measured with the others, and these without it."""
    utterances = [utterance("a", "one two three"), utterance("b", "four five six seven eight nine ten")]
    names = ["first", "second", "third"]
    with Journal(tmp_path, dict.fromkeys(names, ""), CuttingRule()) as journal:
        journal.add("a", piece("one two tree", "one two tree", "one two three", sureness=-0.2))
        journal.add("b", piece("four five six seven eight nine ten", "four five six seven eight nine", "no"))
        lines = precision_table(utterances, journal, names, everything).splitlines()
    assert lines[0].split() == ["read:", "kept", "%,", "wrong", "%", "all:", "kept", "%,", "wrong", "%"]
    rows = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines[1:]}
    assert rows["first and second, 0 %"].startswith("30.0 [")
    assert rows["first and second, 20 %"].startswith("100.0")
    assert rows["first and second, 20 %"].split("], ")[1].startswith("10.0 ")
    assert rows["first and 1 of 2, 20 %"] == rows["first and second, 20 %"]
    assert rows["first and 2 of 2, 20 %"].startswith("0.0")
    assert rows["first and 2 of 2, 100 %"].startswith("100.0")
    assert rows["first and second, 20 %, surer than -0.1"].startswith("70.0")
