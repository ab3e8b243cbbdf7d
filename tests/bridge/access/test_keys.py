"""Keys in a file, and what happens when the file is edited."""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path

import pytest

from streamer.bridge.access.keys import KeyFile, KeyFileError, Role, SecretFile, digest_of, make_key
from tests.bridge.descriptors import no_descriptors

ALICE, BOB = make_key("alice"), make_key("bob")


def name_of(keys: KeyFile, secret: str) -> str | None:
    """Return the name of a key, if it is in the file."""
    entry = keys.find(digest_of(secret))
    return None if entry is None else entry.name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"# admitted callers\n\n{ALICE.line}\n")
    return path


def test_new_keys_differ_and_their_lines_do_not_hold_them() -> None:
    """The file contains only the hashes of keys."""
    keys = [make_key("alice") for _ in range(50)]
    assert len({key.secret for key in keys}) == 50
    assert all(key.secret not in key.line and len(key.secret) > 40 for key in keys)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "x" * 65, "a\n"])
def test_what_is_no_name_is_refused(name: str) -> None:
    """The name of a key must fit into a line of the file and of the log."""
    with pytest.raises(ValueError, match="the name of a key must have"):
        make_key(name)


def test_a_key_is_known_by_its_name(path: Path) -> None:
    """Only a whole key is accepted."""
    keys = KeyFile(path)
    assert len(keys) == 1
    assert name_of(keys, ALICE.secret) == "alice"
    hashed = ALICE.line.rpartition(":")[2]
    for wrong in (BOB.secret, "", ALICE.secret[:-1], ALICE.secret + " ", ALICE.secret.upper(), hashed, "\udcff", "ä"):
        assert name_of(keys, wrong) is None


def test_a_change_counts_at_once(path: Path) -> None:
    """A new content counts at once, however the file is replaced; also twice in a moment."""
    keys = KeyFile(path)
    path.write_text(f"{BOB.line}\n")
    assert (name_of(keys, ALICE.secret), name_of(keys, BOB.secret)) == (None, "bob")
    path.write_text(f"{BOB.line}\n{ALICE.line}\n")
    assert (name_of(keys, ALICE.secret), name_of(keys, BOB.secret)) == ("alice", "bob")
    other = path.with_name("new")
    other.write_text(f"{ALICE.line}\n")
    other.replace(path)
    assert (name_of(keys, ALICE.secret), name_of(keys, BOB.secret)) == ("alice", None)
    path.write_text("")
    assert name_of(keys, ALICE.secret) is None


def test_a_change_of_the_same_length_counts(path: Path) -> None:
    """A change counts even within one tick of the file system's clock."""
    swapped = make_key("alice")
    keys = KeyFile(path)
    for key in (swapped, ALICE) * 20:
        path.write_text(f"# admitted callers\n\n{key.line}\n")
        assert name_of(keys, key.secret) == "alice"


def test_two_lines_of_one_name_are_one_caller(path: Path) -> None:
    """Two keys may have the same name, so that a key can be replaced without a gap."""
    renewed = make_key("alice")
    path.write_text(f"{ALICE.line}\n{renewed.line}\n")
    keys = KeyFile(path)
    assert (name_of(keys, ALICE.secret), name_of(keys, renewed.secret)) == ("alice", "alice")


@pytest.mark.parametrize(
    "broken",
    ["alice", "alice:sha256:123", "alice:md5:00", f"al ice:{ALICE.line[6:]}", "\0"],
    ids=["only a name", "short hash", "other hash", "space in the name", "zero byte"],  # the key is a new one each time
)
def test_a_line_that_is_no_key_is_named_but_not_shown(path: Path, broken: str) -> None:
    """The message does not show the line, which may contain the key itself."""
    path.write_text(f"{BOB.line}\n{broken}\n")
    with pytest.raises(KeyFileError, match="Line 2 of") as caught:
        KeyFile(path)
    assert broken not in str(caught.value).replace(str(path), "")


def test_a_key_of_two_names_is_refused(path: Path) -> None:
    """A key with two names would have no clear owner."""
    path.write_text(f"{ALICE.line}\nbob{ALICE.line[5:]}\n")
    with pytest.raises(KeyFileError, match="another line"):
        KeyFile(path)


def test_the_role_and_the_end_of_a_key(path: Path) -> None:
    """A line may say what a key is for and when it ends; one without, as all were before, is for use without end."""
    admin = make_key("operator", Role.ADMIN, 1801353600.0)
    with path.open("a") as file:
        file.write(f"{admin.line}\n{BOB.line} expires=2027-01-31T00:00:00Z role=use\n")
    assert admin.line.endswith(" role=admin expires=2027-01-31T00:00:00Z")
    keys = KeyFile(path)
    entries = [keys.find(digest_of(key.secret)) for key in (ALICE, admin, BOB)]
    assert [(entry.role, entry.expires_at) for entry in entries if entry is not None] == [
        (Role.USE, math.inf),
        (Role.ADMIN, 1801353600.0),
        (Role.USE, 1801353600.0),
    ]


@pytest.mark.parametrize(
    "term",
    ["role=root", "role", "expires=2027-01-31", "expires=never", "expires=2027-13-01T00:00:00Z", "from=10.0.0.1",
     "role=use role=admin"],
)  # fmt: skip
def test_a_term_that_is_not_understood_gives_no_access(path: Path, term: str) -> None:
    """A key is not accepted without a limit that its line may mean."""
    path.write_text(f"{ALICE.line} {term}\n")
    with pytest.raises(KeyFileError, match=r"Line 1 of .*role=….*expires=…"):
        KeyFile(path)


def test_a_key_with_two_roles_is_refused(path: Path) -> None:
    """Two lines of one key that differ would leave open which one counts."""
    path.write_text(f"{ALICE.line}\n{ALICE.line} role=admin\n")
    with pytest.raises(KeyFileError, match="another line that differs"):
        KeyFile(path)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    """A missing file, and one that is not text, are each refused with a sentence that has the path."""
    with pytest.raises(KeyFileError, match=r"keys cannot be read: No such file"):
        KeyFile(tmp_path / "keys")
    (tmp_path / "keys").write_bytes(b"\xff\xfe")
    with pytest.raises(KeyFileError, match="is not UTF-8 text"):
        KeyFile(tmp_path / "keys")


def test_a_file_that_breaks_locks_nobody_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the file is broken, the former keys stay valid. That is logged once."""
    caplog.set_level(logging.INFO, logger="streamer")
    keys = KeyFile(path)
    for ruin in (lambda: path.write_text(f"{BOB.line}\nhalf"), path.unlink):
        caplog.clear()
        ruin()
        for _ in range(3):
            assert (name_of(keys, ALICE.secret), name_of(keys, BOB.secret)) == ("alice", None)
        assert len(caplog.records) == 1
    path.write_text(f"{BOB.line}\n")
    assert (name_of(keys, ALICE.secret), name_of(keys, BOB.secret)) == (None, "bob")


def test_a_change_counts_after_a_reading_that_failed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A change counts although the file could not be read when it was noticed, and is an old one by then."""
    os.utime(path, (1, 1))
    keys = KeyFile(path)
    path.write_text(f"{BOB.line}\n")
    os.utime(path, (2, 2))
    with no_descriptors():
        assert name_of(keys, ALICE.secret) == "alice"
    assert "the old one" in caplog.text
    assert (name_of(keys, ALICE.secret), name_of(keys, BOB.secret)) == (None, "bob")


def test_secrets(tmp_path: Path) -> None:
    """A secret belongs to the key of its name; one without a name to all others. After the prefix it is base64."""
    (path := tmp_path / "secrets").write_text("# ours\nalice:0123456789abcdef\nwhsec_AAECAwQFBgcICQoLDA0ODw==\n")
    secrets = SecretFile(path)
    assert secrets.of("alice") == (b"0123456789abcdef",)
    assert secrets.of("bob") == secrets.of("") == (bytes(range(16)),)
    path.write_text("alice:0123456789abcdef\nalice:0123456789abcdeg\n")
    assert (len(secrets.of("alice")), secrets.of("bob")) == (2, ())


@pytest.mark.parametrize(
    "line", ["short", "a b:0123456789abcdef", "alice:", "whsec_0123456789abcde", "0123456789 abcdef"]
)
def test_what_is_no_secret(tmp_path: Path, line: str) -> None:
    """The error names the line, and does not quote it."""
    (path := tmp_path / "secrets").write_text(f"{line}\n")
    with pytest.raises(KeyFileError, match="Line 1 of") as error:
        SecretFile(path)
    assert "0123456789" not in str(error.value)
