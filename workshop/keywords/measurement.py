"""Measures a keyword spotter: false alarms, misses and thresholds; and makes a model repository with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from streamer.bridge.triton.repository import CONFIG, asr_repository, config_text, model_config
from streamer.heads.keywords import IMPOSSIBLE, PAUSE_MS, Floats, Frames, KeywordNetwork, KeywordSpotter
from streamer.heads.passage import Passage
from workshop.keywords.training import Candidates, Spoken, candidates

# A report may be this far from the aligned end of its word: PocketSphinx is seconds wrong about some hesitant speakers.
NEAR_MS = 4000
# Logits: probabilities near 1 must differ, too.
THRESHOLDS = 1 / (1 + np.exp(-np.arange(-4.0, 10.0, 0.25)))
# How many misses of a word one false alarm in an hour may cost, from strict to generous.
EXCHANGES = np.geomspace(30, 0.005, 80)
AT_ONCE = 2048  # windows
# The few false alarms of an hour say little. So a threshold counts with those of one that is this many steps lower.
MARGIN = 2


@dataclass(frozen=True)
class KeywordErrors:
    """The keywords in some speech, those that a spotter reported, and its false alarms."""

    hours: float
    said: Counter[str]
    detected: Counter[str]  # how many of `said` the spotter reported
    false: Counter[str]

    @property
    def false_an_hour(self) -> float:
        """False alarms in an hour of speech, of all words together."""
        return sum(self.false.values()) / self.hours if self.hours else 0.0

    @property
    def missed(self) -> float:
        """The share of the spoken keywords that were not reported."""
        return 1 - sum(self.detected.values()) / max(1, sum(self.said.values()))

    def __add__(self, other: KeywordErrors) -> KeywordErrors:
        return KeywordErrors(
            self.hours + other.hours, self.said + other.said, self.detected + other.detected, self.false + other.false
        )


def errors(network: KeywordNetwork, material: Sequence[Spoken]) -> KeywordErrors:
    """Return the errors of a spotter on this speech."""
    said, detected, false = Counter[str](), Counter[str](), Counter[str]()
    spotter, near = KeywordSpotter(network, slots=1), NEAR_MS / network.frame_ms
    for spoken in material:
        size = len(spoken.frames)
        passage = Passage(step=size, steps=1, received=size * network.frame_samples)
        frames = spoken.frames.astype(np.float32)
        [reports] = spotter.listen([Frames(1, passage, frames, start=True, end=True)])
        ends = _ends(network, spoken)
        said.update(network.words[keyword.word] for keyword in spoken.keywords)
        for keyword in reports:
            word, last = network.words.index(keyword.word), round(keyword.at_ms / network.frame_ms) - 1
            (detected if _take(ends, word, last, near) else false)[keyword.word] += 1
    return KeywordErrors(sum(each.hours for each in material), said, detected, false)


def with_thresholds(network: KeywordNetwork, material: Sequence[Spoken], most_false: float) -> KeywordNetwork:
    """Return the network with the thresholds that miss least, with at most this many false alarms an hour in total."""
    hours = sum(each.hours for each in material)
    detected, false = _by_threshold(network, material)
    said = np.bincount([each.word for spoken in material for each in spoken.keywords], minlength=len(network.words))
    misses = 1 - detected / np.maximum(said, 1)
    alarms = np.concatenate([false[:1].repeat(MARGIN, axis=0), false[:-MARGIN]]) / max(hours, 1e-9)
    words = np.arange(len(network.words))
    chosen = np.full(len(words), len(THRESHOLDS) - 1)
    for exchange in EXCHANGES:
        best = (misses + exchange * alarms).argmin(axis=0)
        if alarms[best, words].sum() > most_false:
            break
        chosen = best
    return replace(network, thresholds=THRESHOLDS[chosen].astype(np.float32))


def _by_threshold(network: KeywordNetwork, material: Sequence[Spoken]) -> tuple[Floats, Floats]:
    """Return how many words are reported, and how many false alarms there are: [thresholds, words]."""
    places = candidates(network, material, kept=None)
    probabilities = _judged(network, places)
    pause, near = PAUSE_MS / network.frame_ms, NEAR_MS / network.frame_ms
    counts = np.zeros((2, len(THRESHOLDS), len(network.words)), np.float32)
    for word in range(len(network.words)):
        for level, threshold in enumerate(THRESHOLDS):
            number, last, ends = -1, 0, [list[int]()]
            for place in np.nonzero((places.words == word) & (probabilities >= threshold))[0]:
                if places.number[place] != number:
                    number, last = int(places.number[place]), -PAUSE_MS
                    ends = _ends(network, material[number])
                if places.frame[place] - last >= pause:
                    last = int(places.frame[place])
                    counts[0 if _take(ends, word, last, near) else 1, level, word] += 1
    return counts[0], counts[1]


def _judged(network: KeywordNetwork, places: Candidates) -> Floats:
    """Return the probability of each candidate."""
    probabilities = np.zeros(len(places.words), np.float32)
    for start in range(0, len(places.words), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        words = places.words[part]
        every = np.arange(len(words))
        scores = np.full((len(words), len(network.words)), IMPOSSIBLE, np.float32)
        scores[every, words] = places.scores[part]
        probabilities[part] = network.judged(places.windows[part].astype(np.float32), scores)[every, words]
    return probabilities


def _ends(network: KeywordNetwork, spoken: Spoken) -> list[list[int]]:
    """Return the frames in which each word ends."""
    return [[each.end for each in spoken.keywords if each.word == word] for word in range(len(network.words))]


def _take(ends: list[list[int]], word: int, frame: int, near: float) -> bool:
    """Return whether the word ends so many frames from this one, or fewer. Each end counts once, so it is removed."""
    nearest = min(ends[word], key=lambda end: abs(frame - end), default=None)
    if nearest is None or abs(frame - nearest) > near:
        return False
    ends[word].remove(nearest)
    return True


# Makes a model repository with a keyword spotter beside the shipped heads.

HEAD, ENSEMBLE = "keyword_head", "asr_keywords"
_STEP_BEFORE = "transcript_head"

_MODEL = '''"""The keyword spotter. `keywords.safetensors` is its network."""

from streamer.heads.step_models import KeywordModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
'''


def keyword_repository(folder: Path, network: KeywordNetwork, head: str = HEAD, ensemble: str = ENSEMBLE) -> Path:
    """Link the shipped models into this folder, and add the head and an ensemble with it, under these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in asr_repository().iterdir():
        if not (folder / model.name).is_symlink():
            (folder / model.name).symlink_to(model)
    for name in (head, ensemble):
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
    network.save(folder / head / "1")
    (folder / head / "1" / "model.py").write_text(_MODEL, encoding="utf-8")
    (folder / head / CONFIG).write_text(_head_config(head, network.width), encoding="utf-8")
    (folder / ensemble / CONFIG).write_text(_ensemble_config(ensemble, head), encoding="utf-8")
    return folder


def _head_config(name: str, width: int) -> str:
    """Return the configuration of the activity head, with other inputs and outputs."""
    config = model_config(asr_repository() / "activity_head")
    config.name = name
    config.ClearField("parameters")
    config.input[1].name, config.input[1].dims[1] = "FRAMES", width
    del config.output[:]
    config.output.add(name="HEAD_EVENTS", data_type=config.input[0].data_type, dims=[-1])
    return config_text(config)


def _ensemble_config(name: str, head: str) -> str:
    """Return the shipped ensemble with one more step, whose events go to the last one."""
    config = model_config(asr_repository() / "asr_heads")
    config.name = name
    steps = config.ensemble_scheduling.step
    last = next(each for each in steps if each.model_name == _STEP_BEFORE)
    last.input_map["HEAD_EVENTS"] = "head_events"
    step = steps.add(model_name=head, model_version=-1)
    step.input_map["PASSAGE"] = last.input_map["PASSAGE"]
    step.input_map["FRAMES"] = last.input_map["FRAMES"]
    step.output_map["HEAD_EVENTS"] = "head_events"
    return config_text(config)
