"""Calibration of a tiny bundle, on emissions with known delays and probabilities."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.base.limits import READER, WHOLE_MS
from streamer.engine.acoustics.bundle_files import WEIGHTS_FILE, ModelDescription, read_description
from streamer.engine.acoustics.encoder_config import AnyEncoder, CtcHead, EncoderConfig, MoonshineConfig
from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.search.search import BeamOptions
from streamer.engine.text.calibration import (
    CALIBRATION_FILE,
    LEXICON,
    Calibration,
    ConfidenceWeights,
    StepCalibration,
)
from workshop.acoustic import units
from workshop.data.alignment import alignment_path
from workshop.data.corpus import CorpusError, Utterance, write_corpus
from workshop.search.calibration import calibrate, evidence
from workshop.search.trials import EmittedUtterance, halves

WAYS = {"cat": "K AE T", "dog": "D AO G", "bird": "B ER D"}
NAMES = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS}
OUTPUTS = tuple(CtcHead(name, 1, len(found)) for name, found in NAMES.items())
ENCODERS: dict[str, tuple[AnyEncoder, int]] = {
    "features": (EncoderConfig(OUTPUTS, stem=8, width=16, layers=1, heads=2, feedforward=16), 320),
    "samples": (MoonshineConfig(OUTPUTS, width=16, layers=1, heads=2, feedforward=16, rotated=8), 336),
}
"""An encoder of each kind with the length of its only step."""
# How many frames later than they are spoken words are emitted here.
LATE = 4
BEGIN = 10


def phones(word: str) -> list[str]:
    """Return two frames for each phone, and one at the end of the word."""
    return [*(phone for phone in WAYS[word].split() for _ in range(2)), units.BOUNDARY]


def letters(word: str) -> list[str]:
    """Return a frame for each letter, and one for the space after the word."""
    return [*word, " "]


def emitted(spoken: list[tuple[str, float]], way: Callable[[str], list[str]], names: list[str]) -> torch.Tensor:
    """Return emissions of words with gaps, whose units have the given probability."""
    found = torch.full((BEGIN * (len(spoken) + 1), len(names)), 0.001)
    found[:, units.BLANK] = 1.0
    for place, (word, likely) in enumerate(spoken):
        for frame, unit in enumerate(way(word), start=BEGIN * (place + 1) - 4):
            found[frame, units.BLANK] = 0.01
            found[frame, names.index(unit)] = likely
    return (found / found.sum(1, keepdim=True)).log()


@pytest.fixture(params=ENCODERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Provide a bundle, a prepared set with its alignment, and emissions in which unlikely words are often wrong."""
    encoder, step_ms = ENCODERS[request.param]
    frame_ms = round(encoder.frame_ms)
    AcousticNetwork(ModelDescription("test", encoder, NAMES, (step_ms,))).save(tmp_path)
    language = LanguageModel.build(list(WAYS), {(word,): (math.log(1 / 3), 0.0) for word in WAYS})
    language.save(tmp_path / LANGUAGE_FILE)
    ways = [
        (language.words.index(w), tuple(units.PHONE_NUMBER[phone] for phone in way.split())) for w, way in WAYS.items()
    ]
    Lexicon.build(ways, language.unigrams).save(tmp_path / LEXICON_FILE)
    (tmp_path / SEARCH_FILE).write_text(json.dumps(asdict(BeamOptions(beam=8, tokens=4, endings=4))))
    dice = np.random.default_rng(0)
    recordings, emissions, alignments = [], {}, []
    for number in range(120):
        said, heard, words = [], [], []
        for place in range(4):
            word = str(dice.choice(list(WAYS)))
            likely = float(dice.uniform(0.05, 1.0))
            said.append(word)
            heard.append((word if dice.random() < likely else str(dice.choice(sorted({*WAYS} - {word}))), likely))
            words.append([word, (BEGIN * (place + 1) - 4 - LATE) * frame_ms, 5 * frame_ms])
        name = f"{number}"
        recordings.append((Utterance(name, 0, 0, "x", "s", " ".join(said)), np.zeros(16, dtype=np.int16)))
        emissions["", name] = emitted(heard, phones, units.PHONE_UNITS)
        emissions["-characters", name] = emitted(heard, letters, units.CHARACTERS)
        alignments.append({"name": name, "aligned": number % 10 > 0, "score": 0.0, "words": words, "phones": []})
    write_corpus(tmp_path, "dev", recordings)
    alignment_path(tmp_path, "dev").write_text("".join(f"{json.dumps(one)}\n" for one in alignments))
    mark = hashlib.sha256((tmp_path / WEIGHTS_FILE).read_bytes()).hexdigest()[:12]
    for head in ("", "-characters"):
        of_head = {name: found for (its, name), found in emissions.items() if its == head}
        for each_ms in (step_ms, WHOLE_MS):
            torch.save(of_head, tmp_path / f"dev-{each_ms}-{mark}{head}.pt")
    return tmp_path


def fit(folder: Path) -> str:
    """Calibrate the bundle, and return the tables."""
    return calibrate(folder, folder, "dev", folder, None, print)


def test_what_is_known_is_found(folder: Path) -> None:
    """The delays of starts and ends and the right confidences are found; a second run gives the same file.

    Each step of the bundle has a fit, and so has the second pass.
    """
    tables = fit(folder)
    description = read_description(folder)
    [step_ms], frame_ms = description.step_ms, description.encoder.frame_ms
    written = (folder / CALIBRATION_FILE).read_bytes()
    calibration = Calibration.load(folder / CALIBRATION_FILE)
    assert "the half it was fitted on" in tables
    assert {tuple(fits) for fits in calibration.fits.values()} == {(step_ms, WHOLE_MS)}
    for search, line in zip(("lexicon", "greedy"), tables.splitlines()[-4::2], strict=True):
        assert calibration.start_ms(step_ms, search) == -LATE * frame_ms
        evidence = calibration.fit(step_ms, search).evidence
        assert evidence is not None
        assert evidence.confidence > 0.3
        *name, start, _, end, _, _, error, ranking, _ = line.split()
        assert (*name, start) == (f"{search},", str(step_ms), "ms", "0")
        assert float(end) <= frame_ms
        assert float(error) < 0.12
        assert float(ranking) > 0.7
    assert fit(folder) == tables
    assert (folder / CALIBRATION_FILE).read_bytes() == written


def test_words_of_a_reader_stay_beside_ours(folder: Path) -> None:
    """They end as much later than ours as before, with the confidence that they had."""
    [step_ms] = read_description(folder).step_ms
    sure = ConfidenceWeights(1.0, 2.0, 0.0, 0.0, 0.0)
    before = {LEXICON: StepCalibration(-200, -120), READER: StepCalibration(-200, -90, sure)}
    Calibration({search: {step_ms: own} for search, own in before.items()}).save(folder / CALIBRATION_FILE)
    fit(folder)
    after = Calibration.load(folder / CALIBRATION_FILE)
    assert after.end_ms(step_ms) != -120
    expected = StepCalibration(after.start_ms(step_ms), after.end_ms(step_ms) + 30, sure)
    assert after.fits[READER] == {step_ms: expected}


def test_only_the_first_half_is_fitted(folder: Path) -> None:
    """Another alignment of the second half changes nothing."""
    fit(folder)
    written = (folder / CALIBRATION_FILE).read_bytes()
    lines = [json.loads(line) for line in alignment_path(folder, "dev").read_text().splitlines()]
    nobody = torch.empty(0)
    spoken = [EmittedUtterance(nobody, Utterance(line["name"], 0, 0, "x", "s", "")) for line in lines]
    others = {one.utterance.name for one in halves(spoken)[1]}
    for line in lines:
        if line["name"] in others:
            line["words"] = [[word, start + 1000, length] for word, start, length in line["words"]]
    alignment_path(folder, "dev").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    fit(folder)
    assert (folder / CALIBRATION_FILE).read_bytes() == written


def test_nothing_to_calibrate_with_is_one_sentence(folder: Path) -> None:
    """Without utterances there is one sentence, and no file is written."""
    path = alignment_path(folder, "dev")
    path.write_text(path.read_text().replace('"aligned": true', '"aligned": false'))
    with pytest.raises(CorpusError, match="needs words that were recognised correctly"):
        fit(folder)
    assert not (folder / CALIBRATION_FILE).exists()


def test_weights_that_must_not_be_negative_are_zero() -> None:
    """A weight that would be negative, but must not be, is zero."""
    dice = np.random.default_rng(1)
    signs = np.column_stack([np.ones(2000), dice.normal(size=(2000, 4))])
    right = dice.random(2000) < 1 / (1 + np.exp(-(0.3 + signs @ [0, 1.0, -2.0, 0.5, -0.5])))
    found = evidence(signs, right.astype(np.float64))
    assert found.share == 0.0
    assert found.confidence > 0.4
    assert found.letters < 0 < found.frames
