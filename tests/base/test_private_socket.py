"""Sockets that only this user can open. tests/commands/test_roll.py has those of a running service."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from streamer.base.private_socket import InsecureFolderError, PrivateSocket, SocketError, answers, runtime_path


def test_only_this_user_can_open_it(tmp_path: Path) -> None:
    """The folder and the socket have no rights for others; the socket is gone after its end."""
    place = PrivateSocket(tmp_path / "own" / "a.sock")
    with place.bind() as bound:
        bound.listen()
        assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(place.path.parent.stat().st_mode) == 0o700
        assert answers(place.path)
    place.remove()
    assert not place.path.exists()
    assert not answers(place.path)


def test_a_socket_that_is_used(tmp_path: Path) -> None:
    """It stays; one that a killed process left is replaced, and not removed by the one before."""
    first, second = PrivateSocket(tmp_path / "a.sock"), PrivateSocket(tmp_path / "a.sock")
    with first.bind() as bound:
        bound.listen()
        with pytest.raises(SocketError, match="another process already listens at"):
            second.bind()
    with second.bind():
        first.remove()
        assert second.path.exists()


def test_a_file_in_its_place(tmp_path: Path) -> None:
    """What is no socket is not removed."""
    path = tmp_path / "a.sock"
    path.write_text("work")
    with pytest.raises(SocketError, match="cannot listen at"):
        PrivateSocket(path).bind()
    assert path.read_text() == "work"


def test_a_folder_of_others(tmp_path: Path) -> None:
    """Where others can replace it, there is none."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InsecureFolderError, match="other users may write to"):
        PrivateSocket(folder / "a.sock").bind()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InsecureFolderError, match="is not a folder"):
        PrivateSocket(tmp_path / "link" / "a.sock").bind()


def test_the_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the runtime folder of the user, or one in the temporary folder."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert runtime_path("a.sock") == tmp_path / "streamer" / "a.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_path("a.sock").parent.name.startswith("streamer-")
