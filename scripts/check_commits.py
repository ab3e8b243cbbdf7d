"""Checks the messages of commits: `area: verb object` in at most 72 characters, and a body that says why.

    python scripts/check_commits.py             # the commits since this rule
    python scripts/check_commits.py MESSAGE     # the message in this file, as git gives it to the hook commit-msg

Merges are not checked. Without the history, as in a shallow clone or an archive, there are no commits to check.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LAST_BEFORE_THE_RULE: Final = "d6c024cba60c045013f3530058a88a35d3f26d67"
LONGEST: Final = 72
SUBJECT: Final = re.compile(r"[a-z][a-z0-9_ ,/.-]*: [a-z].*[^.]")
MERGE: Final = "Merge "
SCISSORS: Final = re.compile(r"^# -+ >8 -+$.*", re.MULTILINE | re.DOTALL)  # git drops them and what follows
COMMENT: Final = re.compile(r"^#.*\n?", re.MULTILINE)


def main() -> int:
    """Print what is wrong; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("message", type=Path, nargs="?", help="a file with one message, instead of the history")
    parser.add_argument("--since", default=LAST_BEFORE_THE_RULE, metavar="COMMIT", help="check the commits after it")
    options = parser.parse_args()
    if options.message:
        text = COMMENT.sub("", SCISSORS.sub("", options.message.read_text(encoding="utf-8")))
        messages = [] if text.startswith(MERGE) else [text]
    else:
        messages = list(messages_since(options.since))
    wrong = [(message, found) for message in messages if (found := faults(message))]
    for message, found in wrong:
        print(f"{message.strip().partition(chr(10))[0]}\n    {'; '.join(found)}")
    if wrong:
        print("CONTRIBUTING.md, Commits, has the rule and examples.")
    return 1 if wrong else 0


def faults(message: str) -> list[str]:
    """Return what is wrong with the message of a commit."""
    subject, _, rest = message.strip().partition("\n")
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters, and may have {LONGEST}")
    if not SUBJECT.fullmatch(subject):
        found.append("the subject is not `area: verb object`, in lower case and without a full stop")
    if not rest.strip():
        found.append("there is no body that says why")
    elif not rest.startswith("\n"):
        found.append("the line after the subject is not empty")
    return found


def messages_since(commit: str) -> Iterator[str]:
    """Yield the messages of the commits after this one, without merges; none if the history does not have it."""
    if _git("merge-base", "--is-ancestor", commit, "HEAD") is not None:
        listed = _git("log", "-z", "--no-merges", "--format=%B", f"{commit}..HEAD") or ""
        yield from filter(None, listed.split("\0"))


def _git(*arguments: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
