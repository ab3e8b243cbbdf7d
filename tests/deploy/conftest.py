"""A certificate authority that clients of a test trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bridge.access.certificate_authority import Authority


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Provide a certificate authority. Clients in this process trust it."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
    return authority
