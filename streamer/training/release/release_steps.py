"""Lists the steps from new weights to a bundle that can be released, in order. Each is a command of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from streamer.engine.bundle import LETTERS_FILE, LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE
from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.models.acoustic_model import ACTIVITY_FILE, MODEL_FILE, WEIGHTS_FILE
from streamer.engine.punctuation.punctuation_model import PUNCTUATION_FILE
from streamer.engine.text.calibration import CALIBRATION_FILE
from streamer.training.data.degradation import WAYS

ACOUSTIC = (MODEL_FILE, WEIGHTS_FILE)
WORDS = (*ACOUSTIC, LANGUAGE_FILE, LEXICON_FILE, NEURAL_FILE)
SEARCHED = (*WORDS, LETTERS_FILE, SEARCH_FILE)
EVERYTHING = (*SEARCHED, CALIBRATION_FILE, ACTIVITY_FILE)

DEGRADED = "148"
"""The number of recordings that are degraded: a fifth of dev."""

ONCE = ("--second-pass", "off")  # for figures that the second pass would hide

EXPECTING_WORDS = ("tests/test_tour.py", "tests/doctor", "tests/engine", "tests/asr_repo", "tests/web")


@dataclass(frozen=True)
class ReleaseStep:
    """A command, the parts of the bundle that its result depends on, and its time on two idle cores."""

    name: str
    says: str
    command: tuple[str, ...]
    reads: tuple[str, ...]
    minutes: float


@dataclass(frozen=True)
class ReleasePlaces:
    """The folders of a release."""

    bundle: Path
    work: Path  # prepared speech; dev aligned by PocketSphinx
    speech: Path  # speech as it was given
    folder: Path  # for the output and the files of the steps
    text: Path | None = None  # punctuated text; without it marks are not measured


def release_steps(places: ReleasePlaces) -> list[ReleaseStep]:
    """Return all steps. Values are fitted before anything is measured with them."""
    cached = ("--work", f"{places.work}", "--cache", f"{places.folder / 'cache'}", "--bundle", f"{places.bundle}")
    speech = ("--work", f"{places.work}", "--bundle", f"{places.bundle}")
    dev = f"{places.speech / 'dev.tsv'}"
    alignment = ("--alignment", f"{places.work / 'dev.phones.jsonl'}")

    def script(name: str, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, f"scripts/{name}.py", *arguments)

    def evaluate(name: str, manifest: str, *arguments: str) -> tuple[str, ...]:
        report = ("--json", f"{places.folder / f'{name}.json'}")
        return (sys.executable, "-m", "streamer", "evaluate", manifest, "--engine", *arguments, *report)

    def compared(setting: str, *others: str) -> tuple[str, ...]:
        return ("--half", "second", *alignment, "--compare", setting, *others)

    marks = ReleaseStep(
        "marks",
        "marks and capitals",
        script("measure/punctuation", "--text", f"{places.text}", *speech),
        (*EVERYTHING, PUNCTUATION_FILE),
        6,
    )
    degraded = places.folder / "degraded"
    return [
        ReleaseStep("search", "weights of the search", script("train/tune_search", *cached), WORDS, 8),
        ReleaseStep("hotwords", "bonus of hotwords", script("measure/hotwords", *cached, "--tune"), SEARCHED, 6),
        ReleaseStep("calibration", "times and confidences", script("train/calibrate", *cached), SEARCHED, 6),
        ReleaseStep("errors", "errors on dev", evaluate("errors", dev, *alignment), EVERYTHING, 4),
        ReleaseStep(
            "errors-once",
            "errors without a second pass",
            evaluate("errors-once", dev, *alignment, *ONCE),
            EVERYTHING,
            2,
        ),
        *(
            ReleaseStep(name, says, evaluate(name, dev, *compared(*settings)), EVERYTHING, minutes)
            for name, says, settings, minutes in (
                ("passes", "the second pass", ("second-pass=off,on",), 6.0),
                ("steps", "lengths of a step", ("step-ms=160,320,640", *ONCE), 7.0),
                ("stability", "stability of partials", ("stability=low,medium,high", *ONCE), 6.0),
                ("settling", "words that settle by age", ("settle-ms=0,500,1000,2000", *ONCE), 8.0),
            )
        ),
        ReleaseStep("pauses", "what endpoints cost", script("measure/pauses", *speech), EVERYTHING, 3),
        *(
            ReleaseStep(
                name,
                f"ends of turns, steps of {step_ms} ms",
                script("measure/turns", *speech, "--step-ms", step_ms),
                (*EVERYTHING, PUNCTUATION_FILE),
                6,
            )
            for name, step_ms in (("turns", "320"), ("turns-160", "160"))
        ),
        ReleaseStep("activity", "speech events", script("measure/activity", *speech), (ACTIVITY_FILE,), 10),
        *([marks] if places.text else []),
        ReleaseStep(
            "degrading",
            "recordings made worse",
            script("data/degrade_speech", dev, "--work", f"{places.work}", "--to", f"{degraded}", "--limit", DEGRADED),
            (),
            2,
        ),
        ReleaseStep(
            "as-they-are", "the same as they are", evaluate("as-they-are", dev, "--limit", DEGRADED), EVERYTHING, 1
        ),
        *(
            ReleaseStep(way, f"errors: {way}", evaluate(way, f"{degraded / f'{way}.tsv'}"), EVERYTHING, 1)
            for way in WAYS
        ),
        ReleaseStep("samples", "samples", evaluate("samples", "audio_samples/samples.tsv"), EVERYTHING, 0.3),
        ReleaseStep(
            "documents",
            "tables of card and documents",
            script("train/weights_changed", "--to", f"{places.folder}", "--documents"),
            EVERYTHING,
            0.1,
        ),
        ReleaseStep(
            "words",
            "tests that expect words, the tour among them",
            (sys.executable, "-m", "pytest", "-q", *EXPECTING_WORDS),
            EVERYTHING,
            6,
        ),
    ]
