"""Runs release steps one after another. A step is not repeated if its files are the same as when it was done."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from streamer.text.counts import counted
from streamer.training.data.corpus import CorpusError
from streamer.training.data.replaced_file import replacing
from streamer.training.release.release_steps import ReleaseStep


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
