"""A finding as a line and as an object."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding


def test_a_line_says_what_is_wrong_and_what_to_do() -> None:
    """The line is aligned, has colours only if wanted, and is readable without special characters."""
    found = Finding("ffmpeg", WARNING, "not found", "apt install ffmpeg")
    assert found.line() == "! ffmpeg          not found → apt install ffmpeg"
    assert found.line(plain=True) == "! ffmpeg          not found -> apt install ffmpeg"
    assert Finding("key", FINE, "x").line(colour=True) == "\x1b[32m✓\x1b[0m key             x"
    assert Finding("key", WRONG, "two\nlines").line() == "✗ key             two lines"
    hostile = Finding("k\x1be\u202ey", WRONG, "a\x1b]52;c;\x07")
    assert hostile.line(colour=True) == "\x1b[31m✗\x1b[0m k ey            a ]52;c; "


def test_nothing_private_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a key nor the name of the home folder is shown."""
    monkeypatch.setenv("STREAMER_KEY", "streamer_abc")
    found = Finding("service", WRONG, f"wss://a/?key=streamer_abc and {Path.home()}/models are wrong", "streamer_abc")
    for told in (found.line(), str(found.content())):
        assert "streamer_abc" not in told
        assert f"{Path.home()}/models" not in told
        assert "~/models" in told


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home() -> None:
    """In a container there may be no home folder to hide."""
    assert Finding("key", FINE, "/models/x").line() == "✓ key             /models/x"
