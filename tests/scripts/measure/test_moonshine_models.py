"""The script that compares streaming models of Moonshine with their makers' library."""

from __future__ import annotations

from tests.scripts.program import run_here


def test_without_the_package() -> None:
    """The comparison needs a Python that has it, and says so."""
    for arguments in ((), ("--python", "nowhere/python")):
        done = run_here("measure/moonshine_models.py", *arguments)
        assert done.returncode == 2
        assert "--python must be a Python that has moonshine-voice" in done.stderr
