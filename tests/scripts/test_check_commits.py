"""Messages of commits are checked, in the history and before they are made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.program import run

SCRIPT = "check_commits.py"
BODY = "\n\nIt was too late.\n"


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody, and return its output."""
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    """Make an empty commit with this message, and return its name."""
    git(folder, "commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Provide a repository with one commit from before the rule."""
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "Whatever was written before the rule, at any length, is not checked by anybody any more")
    return tmp_path


@pytest.mark.parametrize(
    "message",
    [
        f"engine: end a segment at the cut{BODY}",
        f"capacity, doctor: name results by what they are{BODY}",
        f"a: {'v' * 69}{BODY}",
        "Merge branch 'docs'\n",
        f"docs: say why\n\nBecause.\n# A comment of git\n# {'-' * 24} >8 {'-' * 24}\ndiff --git a b\n",
    ],
)
def test_a_good_message_is_accepted(tmp_path: Path, message: str) -> None:
    """An area, a verb and an object, and a body; comments of git do not count."""
    (tmp_path / "message").write_text(message, encoding="utf-8")
    done = run(SCRIPT, tmp_path / "message")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (f"a: {'v' * 70}{BODY}", "the subject has 73 characters, and may have 72"),
        (f"The engine ends a segment at the cut{BODY}", "the subject is not `area: verb object`"),
        (f"engine: end a segment at the cut.{BODY}", "without a full stop"),
        (f"Engine: End a segment{BODY}", "in lower case"),
        ("engine: end a segment at the cut\n", "there is no body that says why"),
        ("engine: end a segment at the cut\n\n# only a comment of git\n", "there is no body that says why"),
        ("engine: end a segment at the cut\nIt was too late.\n", "the line after the subject is not empty"),
    ],
)
def test_a_bad_message_is_refused_and_the_reason_is_told(tmp_path: Path, message: str, why: str) -> None:
    """The exit status is 1, and the output has the subject and what is wrong with it."""
    (tmp_path / "message").write_text(message, encoding="utf-8")
    done = run(SCRIPT, tmp_path / "message")
    assert done.returncode == 1
    subject, reason, advice = done.stdout.splitlines()
    assert subject == message.partition("\n")[0]
    assert why in reason
    assert advice.startswith("CONTRIBUTING.md")


def test_the_history_after_a_commit_is_checked(history: Path) -> None:
    """Commits after it are checked, except for merges; those before it are not."""
    start = git(history, "rev-parse", "HEAD")
    commit(history, f"engine: end a segment at the cut{BODY}")
    git(history, "checkout", "--quiet", "-b", "beside", start)
    commit(history, f"docs: tell it{BODY}")
    git(history, "merge", "--quiet", "--no-ff", "--message", "Two histories become one", "-")
    assert run(SCRIPT, "--since", start, folder=history).returncode == 0
    commit(history, f"Too late{BODY}")
    done = run(SCRIPT, "--since", start, folder=history)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "Too late"


def test_without_the_history_there_is_nothing_to_check(history: Path, tmp_path: Path) -> None:
    """A clone that is too shallow, or no repository at all, has no commits to check."""
    commit(history, f"Too late{BODY}")
    bare = tmp_path / "no-repository"
    bare.mkdir()
    assert [run(SCRIPT, folder=folder).returncode for folder in (history, bare)] == [0, 0]
