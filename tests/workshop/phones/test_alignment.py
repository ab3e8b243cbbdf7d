"""A model finds the pronunciations that were said: the likeliest path is the likeliest of all."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.text.calibration import CALIBRATION_FILE, LEXICON, Calibration, StepCalibration
from tests.engine.bundle_of_samples import STEPS_MS, bundle_of_samples
from tests.samples import pcm, reference
from workshop.acoustic import units
from workshop.data.alignment import heard_path, read_targets
from workshop.data.corpus import Utterance, write_corpus
from workshop.language.pronunciation import Phones
from workshop.phones.alignment import DELAY_MS, RESTING, START, PronunciationGraph, align, best_paths

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


@pytest.mark.parametrize(("pooled", "frame_ms"), [(2, 48), (1, 24)])
@pytest.mark.parametrize("late_ms", [None, 90])
def test_times_are_those_of_the_frames(tmp_path: Path, pooled: int, frame_ms: int, late_ms: int | None) -> None:
    """A model with other frames hears a text at times that are whole frames, less what it is late by."""
    bundle = bundle_of_samples(tmp_path / "bundle", pooled)
    if late_ms is None:
        (bundle / CALIBRATION_FILE).unlink()
    else:
        fits = {
            step: StepCalibration(-1.0 * each) for step, each in zip(STEPS_MS[pooled], (1, 2, late_ms), strict=True)
        }
        Calibration({LEXICON: fits}).save(bundle / CALIBRATION_FILE)
    text = reference(SPOKEN)
    write_corpus(tmp_path, "train", [(Utterance("one", 0, 0, "x", "s", text), np.frombuffer(pcm(SPOKEN), np.int16))])
    align(tmp_path, "train", bundle, 1, lambda _: None)
    found = read_targets(tmp_path, "train")["one"]
    assert found.aligned
    starts = {start for _, start, _, _ in found.phones} - {0}
    assert starts
    assert all((start + (late_ms or DELAY_MS)) % frame_ms == 0 for start in starts)


A: list[Phones] = [("AH",), ("EY",)]
TATA: list[Phones] = [("T", "T"), ("T", "AH", "T")]


def sequences(words: list[list[Phones]]) -> list[list[int]]:
    """Return every way to say the words, as units."""
    boundary = units.PHONE_NUMBER[units.BOUNDARY]
    return [
        [unit for phones in chosen for unit in [*(units.PHONE_NUMBER[phone] for phone in phones), boundary]]
        for chosen in product(*words)
    ]


def best_score(emissions: torch.Tensor, wanted: list[list[int]]) -> float:
    """Return the score of the likeliest path that means one of these sequences."""
    used = sorted({units.BLANK, *(unit for sequence in wanted for unit in sequence)})
    found = (path for path in product(used, repeat=len(emissions)) if units.collapse(path) in wanted)
    return max(float(emissions[torch.arange(len(path)), list(path)].sum()) for path in found)


def test_the_best_path_is_the_best_of_all() -> None:
    """The path of every row in a batch is the likeliest; a repeated unit needs a rest in between."""
    torch.manual_seed(3)
    texts, lengths = [[A], [TATA], [A, A], [A]], [3, 6, 6, 5]
    graphs = [PronunciationGraph.of(words) for words in texts]
    for _ in range(4):
        emissions = (3 * torch.randn(len(texts), max(lengths), len(units.PHONE_UNITS))).log_softmax(-1)
        for row, path in enumerate(best_paths(emissions, lengths, graphs)):
            assert path is not None
            said = [units.BLANK if node == RESTING else graphs[row].labels[node] for node in path]
            assert len(said) == lengths[row]
            ways = sequences(texts[row])
            assert units.collapse(said) in ways
            score = float(emissions[row, torch.arange(len(said)), said].sum())
            assert score == pytest.approx(best_score(emissions[row, : lengths[row]], ways), abs=1e-3)


def test_a_text_that_is_too_long_has_no_path() -> None:
    """A text that is too long has no path, and the other rows of the batch have theirs."""
    graphs = [PronunciationGraph.of([TATA]), PronunciationGraph.of([A])]
    found = best_paths(torch.zeros(2, 3, len(units.PHONE_UNITS)), [3, 3], graphs)
    assert found[0] is None
    assert found[1] is not None


# A graph has every way to say a text, and no other.


def said(graph: PronunciationGraph, node: int) -> list[list[str]]:
    """Return all ways to the node, as names of units."""
    if node == START:
        return [[]]
    own = units.PHONE_UNITS[graph.labels[node]]
    return [[*way, own] for before in graph.before[node] for way in said(graph, before)]


def test_each_pronunciation_is_a_branch() -> None:
    """There is a boundary after every word, also after one without known pronunciations."""
    graph = PronunciationGraph.of([[("AH",), ("EY",)], [()], [("K", "AE")]])
    ways = [" ".join(way) for way in said(graph, len(graph) - 1)]
    assert ways == ["AH | | K AE |", "EY | | K AE |"]
    places = [(place.word, place.variant, place.phone) for place in graph.places if place]
    assert places == [(0, 0, 0), (0, 1, 0), (2, 0, 0), (2, 0, 1)]
