"""Words and phones are found where they are spoken, and an interrupted run is continued."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.samples import pcm, reference
from workshop.data.alignment import align, alignment_path, read_alignments
from workshop.data.corpus import Utterance, write_corpus

SPOKEN = "airplane.mp3"


def test_a_share_is_always_the_same(tmp_path: Path) -> None:
    """So many hours are aligned and no more; the same command has nothing to do, and one for all does the rest."""
    samples, text = np.frombuffer(pcm(SPOKEN), dtype=np.int16), reference(SPOKEN)
    names = [f"u{number}" for number in range(6)]
    write_corpus(tmp_path, "train", [(Utterance(name, 0, 0, "x", "s", text), samples) for name in names])
    told: list[str] = []
    share = 2.5 * len(samples) / 16_000 / 3600
    for hours in (share, share, None):
        align(tmp_path, "train", 1, told.append, hours)
    assert told[::2] == [f"train: {done} aligned before, {left} to do" for done, left in ((0, 2), (2, 0), (2, 4))]
    assert set(read_alignments(tmp_path, "train")) == set(names)


def test_words_lie_in_order_and_what_was_done_stays(tmp_path: Path) -> None:
    """Times only grow, phones lie in their words, and a continued run does not repeat what was found."""
    samples, text = np.frombuffer(pcm(SPOKEN), dtype=np.int16), reference(SPOKEN)
    write_corpus(tmp_path, "dev", [(Utterance(name, 0, 0, "x", "s", text), samples) for name in ("one", "two")])
    before = {"name": "one", "aligned": False, "score": 0.0, "words": [], "phones": []}
    partial = alignment_path(tmp_path, "dev").with_name("dev.phones.jsonl.partial")
    partial.write_text(f'{json.dumps(before)}\n{{"name": "two", "al')
    told: list[str] = []
    align(tmp_path, "dev", 1, told.append)
    assert told[0] == "dev: 1 aligned before, 1 to do"
    found = read_alignments(tmp_path, "dev")
    assert not found["one"].aligned
    assert found["two"].aligned
    words, phones = found["two"].words, found["two"].phones
    assert [word for word, _, _ in words] == text.split()
    starts = [start for _, start, _ in words]
    assert starts == sorted(starts)
    assert words[-1][1] + words[-1][2] <= len(samples) // 16
    for _, start, length, number in phones:
        _, begins, lasts = words[number]
        assert begins <= start <= start + length <= begins + lasts
