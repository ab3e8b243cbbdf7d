"""The comparison with PocketSphinx: paired figures, and a cache by the content of the audio."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.commands.accuracy.manifest import AudioLocation, Utterance, read_manifest
from streamer.commands.accuracy.word_errors import ScoredUtterance, score_utterance
from tests.project import SAMPLES
from workshop.comparison.pocketsphinx import comparison, heard_by_pocketsphinx


def results(corpus: str, *hypotheses: str) -> list[ScoredUtterance]:
    """Return results of utterances with ten words each."""
    words, nowhere = tuple("abcdefghij"), AudioLocation(Path("unused"))
    return [
        score_utterance(Utterance(f"{corpus}/{number}", corpus, None, words, nowhere), hypothesis.split())
        for number, hypothesis in enumerate(hypotheses)
    ]


def test_relative_errors_are_paired() -> None:
    """Half the errors in every utterance give exactly half, although both rates are uncertain."""
    theirs = results("x", *["a b c d e f g h"] * 20, *["a b c d e f"] * 20)
    ours = results("x", *["a b c d e f g h i"] * 20, *["a b c d e f g h"] * 20)
    shown = comparison([*theirs, *results("y", "a", "b")], [*ours, *results("y", "a", "b")]).splitlines()
    assert [line.split()[0] for line in shown] == ["corpus", "x", "y", "all"]
    assert shown[1].endswith("-50.0 [-50.0, -50.0]")
    assert shown[2].endswith(" 0.0 [0.0, 0.0]")


def test_it_hears_what_pocketsphinx_hears(tmp_path: Path) -> None:
    """Clear speech is mostly recognised; the second time, the result comes from the cache, whatever the name."""
    cache = tmp_path / "cache"
    utterances = read_manifest(SAMPLES / "samples.tsv")[2:]
    first = list(heard_by_pocketsphinx(utterances, cache, 1))
    assert "gracefully into the sky" in first[0].text
    assert first[0].seconds == pytest.approx(3.1, abs=0.1)
    assert first[0].cpu_s > 0
    assert len(list(cache.iterdir())) == 1
    assert list(heard_by_pocketsphinx(utterances, cache, 1)) == first
