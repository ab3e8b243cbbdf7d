"""Archives from a real server, which may cut, refuse, stall, or give something else."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from streamer.library import LibraryError
from streamer.library.download import Patience, fetch
from tests.file_size_limit import most_bytes
from tests.library.archive_shelf import Item, Quiet, Shelf, archive_shelf

CONTENT = bytes(range(256)) * 3000
AT_ONCE = Patience(stall_s=30, attempts=3, wait_s=0)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "archive.part"


def test_a_whole_archive(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """All bytes arrive, and are counted. What is complete is not asked for again."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT))
    fetch(address, part, quiet)
    fetch(address, part, quiet)
    assert part.read_bytes() == CONTENT
    assert quiet.last == ("fetched", len(CONTENT), len(CONTENT))
    assert shelf.asked == [("/a.tar.bz2", "")]


def test_a_cut_connection_goes_on(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """After an interruption only the rest is asked for, and the bytes are those of the archive."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[100_000, 50_000], failures=[503]))
    fetch(address, part, quiet, Patience(attempts=4, wait_s=0))
    assert part.read_bytes() == CONTENT
    assert [asked for _, asked in shelf.asked] == ["", "", "bytes=100000-", "bytes=150000-"]
    assert [said.partition(";")[0] for said in quiet.said] == [
        "HTTP status 503 (Service Unavailable)",
        "the connection ended after 100000 of 768000 bytes",
        "the connection ended after 150000 of 768000 bytes",
    ]


def test_what_came_is_kept_for_another_command(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """After too many interruptions the part stays, and the next command goes on from there."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000, 1000, 1000]))
    with pytest.raises(LibraryError, match="the bytes so far are kept, and the same command goes on from there"):
        fetch(address, part, quiet, AT_ONCE)
    assert part.stat().st_size == 3000
    fetch(address, part, quiet, AT_ONCE)
    assert part.read_bytes() == CONTENT


class Change(NamedTuple):
    """What a server does when it is asked for the rest."""

    item: Item
    asked: list[str]


@pytest.mark.parametrize(
    "change",
    [
        Change(Item(CONTENT[::-1], mark='"2"'), ["", "bytes=1000-"]),  # another version
        Change(Item(CONTENT[::-1], ranges=False), ["", "bytes=1000-"]),  # a server that gives only the whole
        Change(Item(CONTENT[:500][::-1]), ["", "bytes=1000-", ""]),  # shorter than the part, under the same mark
    ],
)
def test_an_archive_that_has_changed_is_fetched_as_a_whole(
    shelf: Shelf, part: Path, quiet: Quiet, change: Change
) -> None:
    """Two versions of an archive are never mixed."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000]))
    with pytest.raises(LibraryError):
        fetch(address, part, quiet, Patience(attempts=1))
    shelf.put("/a.tar.bz2", change.item)
    fetch(address, part, quiet, AT_ONCE)
    assert part.read_bytes() == change.item.content
    assert [asked for _, asked in shelf.asked] == change.asked


@pytest.mark.parametrize("mark", [None, 'W/"1"'])
def test_without_an_exact_mark_everything_is_fetched_again(
    shelf: Shelf, part: Path, quiet: Quiet, mark: str | None
) -> None:
    """A server that does not say which version it has is not asked for a rest."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000], mark=mark))
    fetch(address, part, quiet, AT_ONCE)
    assert part.read_bytes() == CONTENT
    assert [asked for _, asked in shelf.asked] == ["", ""]


def test_another_address_is_another_archive(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """A part from elsewhere is not continued."""
    with pytest.raises(LibraryError):
        fetch(shelf.put("/a.tar.bz2", Item(CONTENT, cuts=[1000])), part, quiet, Patience(attempts=1))
    fetch(shelf.put("/b.tar.bz2", Item(CONTENT[::-1])), part, quiet)
    assert part.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (None, r"cannot be fetched: HTTP status 404 \(Not Found\)$"),
        (Item(b"x", failures=[403]), r"cannot be fetched: HTTP status 403 \(Forbidden\)$"),
        (Item(b"x", failures=[500] * 3), r"could not be fetched: HTTP status 500 \(Internal Server Error\)$"),
        (Item(b"hello", kind="text/html; charset=utf-8"), "gave a web page in place of an archive"),
        (Item(b"\n <!DOCTYPE html>"), "gave a web page in place of an archive"),
    ],
)
def test_what_is_no_archive(shelf: Shelf, part: Path, quiet: Quiet, item: Item | None, words: str) -> None:
    """A sentence names the address and the reason, and nothing is kept."""
    address = shelf.put("/a.tar.bz2", item) if item else f"{shelf.address}/missing.tar.bz2"
    with pytest.raises(LibraryError, match=words) as caught:
        fetch(address, part, quiet, AT_ONCE)
    assert str(caught.value).startswith(address)
    assert not part.exists()


def test_a_server_that_says_nothing(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """A server that sends nothing is asked again, and then given up."""
    address = shelf.put("/a.tar.bz2", Item(b"", stalls=True))
    with pytest.raises(LibraryError, match=r"could not be fetched: no data came for 0\.05 s"):
        fetch(address, part, quiet, Patience(stall_s=0.05, attempts=2, wait_s=0))
    assert len(shelf.asked) == 2


def test_nobody_there(part: Path, quiet: Quiet) -> None:
    """A refused connection is tried again; a host that does not exist is not."""
    with pytest.raises(LibraryError, match=r"could not be fetched: Connection refused$"):
        fetch("http://127.0.0.1:1/a.tar.bz2", part, quiet, AT_ONCE)
    assert len(quiet.said) == 2
    with pytest.raises(LibraryError, match="cannot be fetched: "):
        fetch("http://[/a.tar.bz2", part, quiet, AT_ONCE)
    assert len(quiet.said) == 2


def test_a_certificate_that_is_not_trusted(part: Path, quiet: Quiet) -> None:
    """The message says which file of roots to name, and there is no second attempt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with archive_shelf(context) as shelf, pytest.raises(LibraryError, match=r"not trusted.*set SSL_CERT_FILE"):
        fetch(f"{shelf.address}/a.tar.bz2", part, quiet, AT_ONCE)
    assert quiet.said == []


def test_through_a_proxy(shelf: Shelf, part: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is used, and the proxy is asked for the whole address."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", shelf.address)
    shelf.put("http://models.example/a.tar.bz2", Item(CONTENT))
    fetch("http://models.example/a.tar.bz2", part, quiet)
    assert part.read_bytes() == CONTENT


def test_there_must_be_space(shelf: Shelf, part: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length is compared with the free space before anything is written."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT))
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=2 * len(CONTENT)))
    with pytest.raises(LibraryError, match=r"not enough space in .*: about 2 MB are needed .* and 2 MB are free"):
        fetch(address, part, quiet)
    assert not part.exists()


def test_a_disk_that_becomes_full(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """What fits is kept, and the same command goes on when there is space."""
    address = shelf.put("/a.tar.bz2", Item(CONTENT))
    with most_bytes(200_000), pytest.raises(LibraryError, match=r"no space is left in .*: free some, and the same"):
        fetch(address, part, quiet)
    fetch(address, part, quiet)
    assert part.read_bytes() == CONTENT
    assert shelf.asked[1][1].startswith("bytes=")


def test_a_length_that_nobody_announced(shelf: Shelf, part: Path, quiet: Quiet) -> None:
    """An archive may come without its length; the limit of the size holds all the same."""
    fetch(shelf.put("/a.tar.bz2", Item(CONTENT, lengths=False)), part, quiet)
    assert part.read_bytes() == CONTENT
    assert quiet.last == ("fetched", len(CONTENT), None)


@pytest.mark.parametrize("lengths", [True, False])
def test_what_is_too_large(
    shelf: Shelf, part: Path, quiet: Quiet, lengths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a limit, whether the length is announced or not."""
    monkeypatch.setattr("streamer.library.download.MOST_BYTES", 1000)
    with pytest.raises(LibraryError, match="is too large"):
        fetch(shelf.put("/a.tar.bz2", Item(CONTENT, lengths=lengths)), part, quiet)
