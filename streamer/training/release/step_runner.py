"""Runs release steps one after another. A step that was done for the same files is not done again."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from streamer.training.data.corpus import CorpusError
from streamer.training.data.replaced_file import replacing
from streamer.training.release.release_steps import ReleaseStep


class StepRunner:
    """Runs steps on a bundle. FOLDER/NAME.txt gets the output of a step, NAME.done the files it was done for."""

    def __init__(self, bundle: Path, folder: Path, tell: Callable[[str], None]) -> None:
        self._bundle = bundle
        self._folder = folder
        self._tell = tell

    def run(self, steps: Sequence[ReleaseStep], again: bool = False) -> None:
        """Run those that are not done, or all of them `again`. CorpusError names the one that failed."""
        waiting = [step for step in steps if again or not self.done(step)]
        skipped = len(steps) - len(waiting)
        minutes = sum(step.minutes for step in waiting)
        self._tell(f"{len(waiting)} steps, about {minutes:.0f} minutes on two idle cores; {skipped} were done before")
        for step in steps:
            # Checked again, because an earlier step may have changed the files that this one reads.
            if again or not self.done(step):
                self._run(step)

    def done(self, step: ReleaseStep) -> bool:
        """Whether the result of the step belongs to the present files."""
        path = self._folder / f"{step.name}.done"
        return path.is_file() and path.read_text(encoding="utf-8") == self._mark(step)

    def _run(self, step: ReleaseStep) -> None:
        self._tell(f"\n{step.name}: {step.says} (about {step.minutes:g} min): {' '.join(step.command)}")
        self._folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with (
            replacing(self._folder / f"{step.name}.txt", "w") as kept,
            subprocess.Popen(step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        ):
            try:
                for line in process.stdout or ():
                    kept.write(line)
                    self._tell(line.rstrip("\n"))
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
            if status:
                raise CorpusError(f"the step {step.name!r} failed with status {status}; the next run begins with it")
        # Marked by the files as they are now: some steps write what they read.
        with replacing(self._folder / f"{step.name}.done", "w") as file:
            file.write(self._mark(step))
        self._tell(f"{step.name}: {(time.monotonic() - started) / 60:.1f} min")

    def _mark(self, step: ReleaseStep) -> str:
        files = {name: _digest(self._bundle / name) for name in step.reads}
        return json.dumps({"command": step.command, "files": files})


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
