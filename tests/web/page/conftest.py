"""The page of a service that hears exactly what is said: here it matters what becomes of the words."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from streamer.testing import ExactService


@pytest.fixture(scope="session")
def site(exact: ExactService) -> str:
    """The address of the service's pages."""
    return f"http://{urlsplit(exact.url).netloc}"
