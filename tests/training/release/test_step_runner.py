"""Steps are done once for the same files, and continue after a stop."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.release.release_steps import ReleaseStep
from streamer.training.release.step_runner import StepRunner


def step(name: str, code: str, *reads: str) -> ReleaseStep:
    """Return a step that runs some Python."""
    return ReleaseStep(name, f"the {name}", (sys.executable, "-c", code), reads, 1)


def test_a_step_is_done_again_only_for_other_files(tmp_path: Path) -> None:
    """A step is repeated only if its files changed, even if it writes a file that it reads; later steps see that."""
    bundle, folder = tmp_path / "bundle", tmp_path / "steps"
    bundle.mkdir()
    (bundle / "weights").write_text("1")
    (bundle / "search").write_text("0")
    tunes = f"from pathlib import Path; Path({str(bundle / 'search')!r}).write_text('tuned'); print('tuned it')"
    steps = [step("search", tunes, "weights", "search"), step("errors", "print(7)", "search")]
    told: list[str] = []
    runner = StepRunner(bundle, folder, told.append)
    runner.run(steps)
    assert told[0] == "2 steps, about 2 minutes on two idle cores; done before: 0"
    assert (folder / "search.txt").read_text() == "tuned it\n"
    assert (folder / "errors.txt").read_text() == "7\n"
    told.clear()
    runner.run(steps)
    assert told == ["0 steps, about 0 minutes on two idle cores; done before: 2"]
    (bundle / "weights").write_text("2")
    assert [runner.done(each) for each in steps] == [False, True]
    told.clear()
    runner.run(steps[1:], again=True)
    assert "7" in told


def test_a_step_that_fails_is_named_and_keeps_nothing(tmp_path: Path) -> None:
    """A failed step is named and not marked as done; its output is shown."""
    told: list[str] = []
    runner = StepRunner(tmp_path, tmp_path, told.append)
    with pytest.raises(CorpusError, match="the step 'errors' failed with status 3; the next run begins with it"):
        runner.run([step("errors", "print('why'); raise SystemExit(3)")])
    assert "why" in told
    assert not list(tmp_path.iterdir())
