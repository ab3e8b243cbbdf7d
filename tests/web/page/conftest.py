"""The page of a service that recognises exactly what it is given, to test what happens with the words."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from streamer.testing import ExactService


@pytest.fixture(scope="session")
def site(exact: ExactService) -> str:
    """The address of the service's pages."""
    return f"http://{urlsplit(exact.url).netloc}"
