"""A model finds the pronunciations that were said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from streamer.training.acoustic import units
from streamer.training.data.alignment import heard_path, read_targets
from streamer.training.data.corpus import Utterance, write_corpus
from streamer.training.phones.model_alignment import align
from streamer.triton.repository import asr_repository
from tests.samples import pcm, reference

SPOKEN = "airplane.mp3"


def test_what_is_heard_is_written_and_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    """Words have one of their pronunciations, times only grow, and a text that is too long has no times."""
    samples, text = np.frombuffer(pcm(SPOKEN), dtype=np.int16), reference(SPOKEN)
    recordings = [
        (Utterance("one", 0, 0, "x", "s", text), samples),
        (Utterance("two", 0, 0, "x", "s", text), samples),
        (Utterance("short", 0, 0, "x", "s", text), samples[:1600]),
    ]
    write_corpus(tmp_path, "train", recordings)
    before = {"name": "one", "aligned": False, "score": 0.0, "words": [], "phones": []}
    partial = heard_path(tmp_path, "train").with_name("train.heard.jsonl.partial")
    partial.write_text(f'{json.dumps(before)}\n{{"name": "two", "al')
    told: list[str] = []
    align(tmp_path, "train", asr_repository() / "streaming_asr" / "1", 1, told.append)
    assert told == ["train: 1 heard before, 2 to do", "train: 1 of 2 heard"]
    write_corpus(tmp_path, "train", [*recordings, (Utterance("new", 0, 0, "x", "s", text), samples)])
    align(tmp_path, "train", asr_repository() / "streaming_asr" / "1", 1, told.append)
    assert told[2:] == ["train: 3 heard before, 1 to do", "train: 1 of 1 heard"]
    found = read_targets(tmp_path, "train")
    assert found.pop("new").words == found["two"].words
    assert [name for name, each in found.items() if each.aligned] == ["two"]
    two = found["two"]
    assert [word for word, _, _ in two.words] == text.split()
    starts = [start for _, start, _, _ in two.phones]
    assert starts == sorted(starts)
    assert all(0 <= start < start + length <= len(samples) // 16 for _, start, length, _ in two.phones)
    assert two.score > -5
    assert units.phones(two).count(units.PHONE_NUMBER["|"]) == len(text.split())
    # Without times it has the first pronunciation of each word.
    assert {word for _, start, _, word in found["short"].phones if not start} == set(range(len(text.split())))
