"""The name of the distribution: all instructions use it, and never the name of somebody else's package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.base.package import NAME, install_command
from tests.project import ROOT

# Where installation instructions may be.
FOLDERS = (".ci", "asr_repo", "audio_samples", "deploy", "docs", "scripts", "streamer", "tests")
FILES = ("*.md", "*.py", "*.toml", "Makefile")
WRITTEN = {"", ".html", ".js", ".json", ".md", ".py", ".sh", ".toml", ".tsv", ".txt", ".yaml", ".yml"}

# `streamer[mic]`, `pip install --upgrade 'streamer==1.1'`, `uv add streamer`, `uvx streamer`, `reinstall streamer`.
STRANGER = re.compile(
    r"""
    \bstreamer\[[a-z]
    | (?: \bpip[x3]?\s (?:[^\n`]*\s)? (?:install|run) | \b(?:uv|poetry)\sadd | \buvx | \breinstall )
      \b [^\n`]*? [\s'"]streamer (?! [\w/-] | \.\w)
    """,
    re.VERBOSE,
)


def texts() -> Iterator[Path]:
    """All files that people read or run, except this one, which has wrong instructions as examples."""
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in WRITTEN and path.is_file())
    for pattern in FILES:
        yield from ROOT.glob(pattern)


def test_nobody_is_told_to_install_the_package_of_somebody_else() -> None:
    """`streamer` in the public index is another project."""
    paths = set(texts()) - {Path(__file__)}
    assert {
        ROOT / "README.md",
        ROOT / "pyproject.toml",
        ROOT / "Makefile",
        ROOT / "docs" / "how-to/microphone.md",
    } <= paths
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in paths
        for line in path.read_text(encoding="utf-8").splitlines()
        if STRANGER.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "advice",
    [
        "pip install streamer",
        "`pip install streamer`",
        "pip install 'streamer[mic]'",
        "pip install --upgrade streamer==1.1",
        "else reinstall streamer.",
        "uv add streamer",
        "uvx streamer talk.wav",
        '    "streamer[bridge,engine]",',
    ],
)
def test_such_advice_is_noticed(advice: str) -> None:
    """Wrong instructions are noticed in every form."""
    assert STRANGER.search(advice)


@pytest.mark.parametrize(
    "right",
    [
        "pip install 'streamer-asr[mic]'",
        "pip install dist/streamer_asr-0.1.0-py3-none-any.whl",
        "pip install -e . # then: python -m streamer.commands",
        "`pip install 'streamer-asr'` gives the command `streamer`",
    ],
)
def test_our_own_name_is_not_taken_for_it(right: str) -> None:
    """The command and the folder may still be called `streamer`."""
    assert not STRANGER.search(right)


def test_the_name_is_that_of_the_package() -> None:
    """pyproject.toml has this name, and its parts use it to refer to each other."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nname = "{NAME}"\n' in text
    assert len(re.findall(rf'^    "{NAME}\[[a-z,]+\]",$', text, re.MULTILINE)) == 9


def test_what_to_type() -> None:
    """A part is quoted, because a shell would interpret the brackets."""
    assert install_command() == "pip install streamer-asr"
    assert install_command("mic") == "pip install 'streamer-asr[mic]'"
