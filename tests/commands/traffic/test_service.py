"""The service that a load measurement starts for itself."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from streamer.base.address import is_ready
from streamer.commands.traffic.service import NotStarted, own_service
from streamer.testing.exact_service import exact_repository


def test_it_is_ready_and_ends(tmp_path: Path) -> None:
    """It is a service on this machine, and nothing of it is left."""
    with own_service(["--repository", str(exact_repository(tmp_path))]) as service:
        parts = urlsplit(service.wait_ready())
        assert is_ready(str(parts.hostname), int(parts.port or 0))
        assert service.alive
        below = psutil.Process(service.pid).children(recursive=True)
        assert len(below) >= 3
    assert not service.alive
    assert not psutil.wait_procs(below, 60)[1]


def test_its_death_in_words(tmp_path: Path) -> None:
    """A signal has its name, and another end its status and what was said last."""
    with own_service(["--repository", str(exact_repository(tmp_path))]) as service:
        service.wait_ready()
        psutil.Process(service.pid).send_signal(signal.SIGKILL)
        assert service.death() == "its process was ended by the signal SIGKILL"
    with own_service(["--slots", "none"]) as service:
        with pytest.raises(NotStarted, match=r"the service did not start:\nstreamer: .*--slots"):
            service.wait_ready()
        assert service.death().startswith("its process ended with the status 2:\nstreamer: ")
