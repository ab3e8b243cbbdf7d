"""The steps from new weights to a bundle that can be released: lists them in order, and runs those that are due."""

from __future__ import annotations

import filecmp
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.base.text import counted
from streamer.bridge.triton.repository import CONFIG
from streamer.engine.acoustics.bundle_files import ACTIVITY_FILE, MODEL_FILE, WEIGHTS_FILE, read_description
from streamer.engine.bundle import LETTERS_FILE, LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE
from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.reader.combination import READER_FILE
from streamer.engine.text.calibration import CALIBRATION_FILE
from streamer.engine.text.punctuation_model import PUNCTUATION_FILE
from workshop.data.alignment import heard_path
from workshop.data.corpus import CorpusError, replacing
from workshop.data.degradation import WAYS
from workshop.data.held_out import MANIFEST

ACOUSTIC = (MODEL_FILE, WEIGHTS_FILE)
WORDS = (*ACOUSTIC, LANGUAGE_FILE, LEXICON_FILE, NEURAL_FILE)
SEARCHED = (*WORDS, LETTERS_FILE, SEARCH_FILE)
EVERYTHING = (*SEARCHED, CALIBRATION_FILE, ACTIVITY_FILE)
READ_TOO = (*EVERYTHING, READER_FILE)

DEGRADED = "148"
"""The number of recordings that are degraded: a fifth of dev."""

ONCE = ("--second-pass", "off")  # for figures that the second pass would hide
TWICE = ("--second-pass", "on")  # for figures of this model alone
READ = ("--second-pass", "reader", "--reader", "moonshine-tiny")

IN_PARALLEL = ("--numprocesses", "auto", "--dist", "loadfile", "--no-loadscope-reorder")  # as in the Makefile
EXPECTING_WORDS = ("tests/test_tour.py", "tests/commands/checks", "tests/engine", "tests/asr_repo", "tests/web")


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
    work: Path  # prepared speech; dev aligned by PocketSphinx. Without train as a model heard it, the keywords stay
    speech: Path  # speech as it was given
    folder: Path  # for the output and the files of the steps
    text: Path | None = None  # punctuated text; without it marks are not measured
    heldout: Path | None = None  # the held-out set; without it only dev is measured


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
    held_out = [
        ReleaseStep(
            name,
            f"errors on the held-out set{how}",
            evaluate(name, f"{places.heldout}/{MANIFEST}", *passes),
            reads,
            minutes,
        )
        for name, how, passes, reads, minutes in (
            ("heldout", "", TWICE, EVERYTHING, 0.3),
            ("heldout-once", " without a second pass", ONCE, EVERYTHING, 0.2),
            ("heldout-read", " with a reader", READ, READ_TOO, 0.4),
        )
    ]
    keywords = ReleaseStep(
        "keywords",
        "the example of a keyword spotter",
        script(
            "train/train_keywords",
            *("--work", f"{places.work}", "--to", f"{places.folder / 'keywords'}", "--save", "examples/keywords"),
            *("--hours", "6"),
        ),
        (*ACOUSTIC, LETTERS_FILE),
        7,
    )
    degraded = places.folder / "degraded"
    return [
        ReleaseStep("search", "weights of the search", script("train/tune_search", *cached), WORDS, 8),
        ReleaseStep("hotwords", "bonus of hotwords", script("measure/hotwords", *cached, "--tune"), SEARCHED, 1),
        ReleaseStep("calibration", "times and confidences", script("train/calibrate", *cached), SEARCHED, 6),
        *(
            ReleaseStep(
                name,
                f"how words of {name} are combined with ours",
                script("train/fit_reader", dev, "--reader", name, "--write"),
                EVERYTHING,
                minutes,
            )
            for name, minutes in (("moonshine-base", 5), ("moonshine-tiny", 4))  # the last one's confidence stays
        ),
        *([keywords] if heard_path(places.work, "train").is_file() else []),
        ReleaseStep("errors", "errors on dev", evaluate("errors", dev, *alignment, *TWICE), EVERYTHING, 1.5),
        ReleaseStep(
            "errors-once",
            "errors without a second pass",
            evaluate("errors-once", dev, *alignment, *ONCE),
            EVERYTHING,
            1,
        ),
        ReleaseStep("errors-read", "errors with a reader", evaluate("errors-read", dev, *READ), READ_TOO, 2),
        *(held_out if places.heldout else []),
        *(
            ReleaseStep(name, says, evaluate(name, dev, *compared(*settings)), EVERYTHING, minutes)
            for name, says, settings, minutes in (
                ("passes", "the second pass", ("second-pass=off,on",), 1.0),
                ("steps", "lengths of a step", ("step-ms=160,320,640", *ONCE), 1.5),
                ("stability", "stability of partials", ("stability=low,medium,high", *ONCE), 1.5),
                ("settling", "words that settle by age", ("settle-ms=0,500,1000,2000", *ONCE), 2.0),
            )
        ),
        ReleaseStep("pauses", "what endpoints cost", script("measure/pauses", *speech), EVERYTHING, 0.3),
        *(
            ReleaseStep(
                name,
                f"ends of turns, steps of {step_ms} ms",
                script("measure/turns", *speech, "--step-ms", step_ms),
                (*EVERYTHING, PUNCTUATION_FILE),
                2,
            )
            for name, step_ms in (("turns", "320"), ("turns-160", "160"))
        ),
        ReleaseStep("activity", "speech events", script("measure/activity", *speech), (MODEL_FILE, ACTIVITY_FILE), 0.5),
        *([marks] if places.text else []),
        ReleaseStep(
            "degrading",
            "recordings made worse",
            script("data/degrade_speech", dev, "--work", f"{places.work}", "--to", f"{degraded}", "--limit", DEGRADED),
            (),
            0.5,
        ),
        ReleaseStep(
            "as-they-are",
            "the same as they are",
            evaluate("as-they-are", dev, "--limit", DEGRADED, *TWICE),
            EVERYTHING,
            0.5,
        ),
        *(
            ReleaseStep(way, f"errors: {way}", evaluate(way, f"{degraded / f'{way}.tsv'}", *TWICE), EVERYTHING, 0.5)
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
            (sys.executable, "-m", "pytest", "-q", *IN_PARALLEL, *EXPECTING_WORDS),
            EVERYTHING,
            6,
        ),
    ]


class StepRunner:
    """Runs steps on a bundle. FOLDER/NAME.txt gets the output of a step, and NAME.done the state of its files."""

    def __init__(self, bundle: Path, folder: Path, tell: Callable[[str], None]) -> None:
        self._bundle = bundle
        self._folder = folder
        self._tell = tell

    def run(self, steps: Sequence[ReleaseStep], again: bool = False) -> None:
        """Run the steps that are not done; with `again`, all of them. CorpusError names the step that failed."""
        waiting = [step for step in steps if again or not self.done(step)]
        skipped = len(steps) - len(waiting)
        minutes = sum(step.minutes for step in waiting)
        lasting = counted(round(minutes), "minute")
        self._tell(f"{counted(len(waiting), 'step')}, about {lasting} on two idle cores; done before: {skipped}")
        for step in steps:
            # This is checked again here, because an earlier step may have changed the files that this one reads.
            if again or not self.done(step):
                self._run(step)

    def done(self, step: ReleaseStep) -> bool:
        """Return whether the result of the step belongs to the present files."""
        path = self._folder / f"{step.name}.done"
        return path.is_file() and path.read_text(encoding="utf-8") == self._state(step)

    def _run(self, step: ReleaseStep) -> None:
        self._tell(f"\n{step.name}: {step.says} (about {step.minutes:g} min): {' '.join(step.command)}")
        self._folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with (
            replacing(self._folder / f"{step.name}.txt", "w") as output,
            subprocess.Popen(step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        ):
            try:
                for line in process.stdout or ():
                    output.write(line)
                    self._tell(line.rstrip("\n"))
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
            if status:
                raise CorpusError(f"the step {step.name!r} failed with status {status}; the next run begins with it")
        # The state of the files is noted after the step, because some steps change files that they read.
        with replacing(self._folder / f"{step.name}.done", "w") as file:
            file.write(self._state(step))
        self._tell(f"{step.name}: {(time.monotonic() - started) / 60:.1f} min")

    def _state(self, step: ReleaseStep) -> str:
        files = {name: _digest(self._bundle / name) for name in step.reads}
        return json.dumps({"command": step.command, "files": files})


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


# Copies the parts of a bundle. Each part is a file. Parts that have not changed are not written again.

PARTS = (
    MODEL_FILE,
    WEIGHTS_FILE,
    ACTIVITY_FILE,
    LANGUAGE_FILE,
    LEXICON_FILE,
    LETTERS_FILE,
    NEURAL_FILE,
    SEARCH_FILE,
    CALIBRATION_FILE,
    READER_FILE,
)


def take_over(source: Path, bundle: Path, tell: Callable[[str], None]) -> list[str]:
    """Copy all parts of `source` into a bundle. Returns the names of the parts that are new.

    CorpusError if there are none, or if they do not fit the others.
    """
    parts = [name for name in PARTS if (source / name).is_file()]
    if not parts:
        raise CorpusError(f"{source} contains no part of a bundle: give the folder `averaged` of a run")
    if MODEL_FILE in parts and ACTIVITY_FILE not in parts:
        own, former = (read_description(folder).encoder.frame_ms for folder in (source, bundle))
        if own != former:
            raise CorpusError(
                f"{source} has frames of {own:g} ms, but the activity network of {bundle} reads those of {former:g} ms:"
                f" train one with scripts/train/train_activity.py --bundle {source}"
            )
    new = []
    for name in parts:
        target = bundle / name
        if target.is_file() and filecmp.cmp(source / name, target, shallow=False):
            tell(f"{name} has not changed")
            continue
        with replacing(target, "wb") as file:
            file.write((source / name).read_bytes())
        new.append(name)
        tell(f"{name} is new: {target.stat().st_size / 1e6:.1f} MB")
    return new


# Frames go from one step of an ensemble to the next. Triton wants to know how many numbers a frame has.

_WIDTH = re.compile(r'(name: "FRAMES\w*"\s+data_type: TYPE_FP32\s+dims: \[ -1, )\d+(?= \])')


def write_frame_width(bundle: Path, tell: Callable[[str], None]) -> None:
    """Write the width of the frames of a bundle into the configurations of the models beside it that have frames."""
    width = read_description(bundle).encoder.frame_width
    for path in sorted(bundle.parents[1].glob(f"*/{CONFIG}")):
        before = path.read_text(encoding="utf-8")
        after = _WIDTH.sub(rf"\g<1>{width}", before)
        if after != before:
            with replacing(path, "w") as file:
                file.write(after)
            tell(f"{path}: frames of {width} numbers")
