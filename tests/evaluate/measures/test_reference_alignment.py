"""Reading alignments of both formats, and matching them to references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.evaluate.manifest import AudioLocation, ManifestError, Utterance
from streamer.evaluate.measures.reference_alignment import AlignedWord, read_alignment


def utterance(name: str, text: str) -> Utterance:
    return Utterance(name, "c", None, tuple(text.split()), AudioLocation(Path("unused")))


SPOKEN = [utterance("a/1.ogg", "well known man"), utterance("a/2.ogg", "yes"), utterance("a/3.ogg", "no")]


def test_json_lines(tmp_path: Path) -> None:
    """Words of an aligner are split like ours; utterances that are not aligned or differ are left out."""
    lines = [
        {"name": "a/1.ogg", "aligned": True, "words": [["Well-known", 100, 400], ["man", 600, 50]], "phones": []},
        {"name": "a/2.ogg", "aligned": False, "words": [["yes", 0, 0]]},
        {"name": "a/3.ogg", "aligned": True, "words": [["know", 0, 100]]},
        {"name": "other", "words": []},
    ]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert read_alignment(path, SPOKEN) == {
        "a/1.ogg": [
            AlignedWord("well", 100, 500, False),
            AlignedWord("known", 100, 500, False),
            AlignedWord("man", 600, 650),
        ]
    }


def test_ctm(tmp_path: Path) -> None:
    """CTM has seconds, with or without a confidence."""
    path = tmp_path / "dev.ctm"
    path.write_text(
        "a/2.ogg 1 0.25 0.50 YES\na/1.ogg A 0.1 0.2 well 0.9\na/1.ogg A 0.3 0.1 known 1\na/1.ogg A 1 1 man 1\n"
    )
    assert read_alignment(path, SPOKEN) == {
        "a/1.ogg": [AlignedWord("well", 100, 300), AlignedWord("known", 300, 400), AlignedWord("man", 1000, 2000)],
        "a/2.ogg": [AlignedWord("yes", 250, 750)],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no utterance of the manifest: it has nothing at all"),
        ('{"name": "x", "words": []}\n', "holds no utterance of the manifest: it has 'x', the manifest 'a/1.ogg'"),
        ('{"name": "a/1.ogg"}\n', "line 1, is neither"),
        ('{"name": "a/1.ogg", "words": [["a", 1]]}\n', "line 1, is neither"),
        ("a/1.ogg 1 0 1 well\n\na/1.ogg 1 x 1 known\n", "line 3, is neither"),
        ("a/1.ogg 1\n", "line 1, is neither"),
    ],
)
def test_a_bad_alignment_is_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    """An error names the file, and the line if there is one."""
    path = tmp_path / "alignment"
    path.write_text(content)
    with pytest.raises(ManifestError, match=words) as error:
        read_alignment(path, SPOKEN)
    assert str(path) in str(error.value)


def test_an_alignment_that_is_not_there(tmp_path: Path) -> None:
    """An alignment of other utterances is refused in one sentence."""
    with pytest.raises(ManifestError, match="cannot be read: No such file"):
        read_alignment(tmp_path / "missing", SPOKEN)
