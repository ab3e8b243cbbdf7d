"""Prepared sets for the tests of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workshop.acoustic.tiny_run import make_work


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Provide a folder of prepared sets."""
    return make_work(tmp_path)
