"""API keys: a file with a line `name:sha256:…` for each key, read again when it changes.

Behind the hash of a key there may be ` role=admin` and ` expires=2027-01-31T00:00:00Z`, in any order.

A key is 256 random bits, which cannot be found by trial, so a fast hash is safe: SHA-256. A slow hash such as scrypt is
for passwords that people choose; here it would only let strangers keep the processor busy with handshakes. This module
uses only the standard library, so `streamer key` needs nothing else. Files of secrets that others know as well stand
here, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from streamer.base.codes import Code
from streamer.bridge.access.watched_files import WatchedFiles
from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

# Secret scanners can find keys in code by this prefix.
PREFIX = "streamer_"
SECRET_PREFIX = "whsec_"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_SECRET = re.compile(r"[A-Za-z0-9+/=_-]{16,256}")
_MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"


class KeyFileError(Exception):
    """A file cannot be used. The message is a sentence for the operator."""


class Role(Code):
    """What a key is for."""

    USE = "use"  # to have audio recognised
    ADMIN = "admin"  # the same, and to see and end the sessions of all keys


@dataclass(frozen=True)
class Key:
    """A new key: the secret for its holder, the line for the file."""

    secret: str
    line: str


class Entry(NamedTuple):
    """What a line of the file says. `digest` is the secret itself in a file of secrets that others know as well."""

    name: str
    digest: bytes
    role: Role = Role.USE
    expires_at: float = math.inf  # in seconds since 1970


def make_key(name: str, role: Role = Role.USE, expires_at: float = math.inf) -> Key:
    """Make a new random key with this name. ValueError if the name is not valid. `expires_at`: since 1970."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name of a key must have 1 to 64 letters, digits and . _ -, unlike '{name}'")
    secret = PREFIX + secrets.token_urlsafe(32)
    line = f"{name}:sha256:{digest_of(secret).hex()}"
    if role is not Role.USE:
        line += f" role={role}"
    if expires_at < math.inf:
        line += f" expires={moment_of(expires_at)}"
    return Key(secret, line)


def moment_of(seconds: float) -> str:
    """Return a time in seconds since 1970 as files and messages have it."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(_MOMENT)


class KeyFile:
    """The keys of a file. Several lines may have the same name, so that a key can be replaced without a gap."""

    kind: ClassVar[str] = "keys"  # in the log
    form: ClassVar[str] = "have the form NAME:sha256:… [role=…] [expires=…], as 'streamer key NAME' prints it"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failure = ""  # of the last reading
        with _said(path):
            self._file = WatchedFiles([path], self._read)

    def __len__(self) -> int:
        self.refresh()
        return len(self._file.content)

    def find(self, digest: bytes) -> Entry | None:
        """Return the key with this digest, also an expired one. Every entry is compared: the time reveals nothing."""
        self.refresh()
        result = None
        for entry in self._file.content:
            if hmac.compare_digest(digest, entry.digest):
                result = entry
        return result

    def refresh(self) -> None:
        """Read the file again if it has changed. If it cannot be used, keep the present keys."""
        before = self._file.content
        try:
            with _said(self._path):
                self._file.refresh()
            self._failure = ""
        except KeyFileError as error:
            # A half-written file must not lock callers out, nor admit strangers.
            if str(error) != self._failure:
                log.error(f"{self.kind} not read again, the old ones stay", reason=str(error))
            self._failure = str(error)
        else:
            if self._file.content != before:
                log.info(f"{self.kind} read again", keys=len(self._file.content))

    def _read(self) -> tuple[Entry, ...]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise KeyFileError(f"{self._path} is not UTF-8 text.") from error
        entries: dict[bytes, Entry] = {}
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            entry = self._entry(text)
            # The message does not quote the line, because it may contain the key itself.
            if entry is None:
                raise KeyFileError(f"Line {number} of {self._path} must {self.form}.")
            if entries.setdefault(entry.digest, entry) != entry:
                raise KeyFileError(f"Line {number} of {self._path} has the same key as another line that differs.")
        return tuple(entries.values())

    @staticmethod
    def _entry(line: str) -> Entry | None:
        """Return what a line says; None if it is not valid."""
        key, *rest = line.split(" ")
        name, _, hashed = key.partition(":")
        terms = dict(term.partition("=")[::2] for term in rest if term)
        if not _NAME.fullmatch(name) or not _HASH.fullmatch(hashed) or len(terms) != sum(map(bool, rest)):
            return None
        try:
            role, expires = Role(terms.pop("role", Role.USE)), terms.pop("expires", None)
            expires_at = math.inf if expires is None else _seconds_of(expires)
        except ValueError:
            return None
        # What a later version may mean by another term could be a limit, so such a key is not accepted without it.
        return None if terms else Entry(name, bytes.fromhex(hashed.removeprefix("sha256:")), role, expires_at)


class SecretFile(KeyFile):
    """The secrets of a file, which sign what the service sends or gets. They belong to the keys of the same names.

    A line without a name has a secret for everybody whose name no other line has. What follows the prefix of a secret
    for webhooks is base64, as libraries for their receivers expect it.
    """

    kind = "secrets"
    form = f"be a secret of 16 or more characters, or NAME: and a secret; after {SECRET_PREFIX} it is base64"

    def entries(self) -> tuple[tuple[str, bytes], ...]:
        """Return all names with their secrets."""
        self.refresh()
        return tuple((entry.name, entry.digest) for entry in self._file.content)

    def of(self, name: str) -> tuple[bytes, ...]:
        """Return the secrets of a name, the first one first; none if there are none for it."""
        entries = self.entries()
        own = tuple(secret for owner, secret in entries if owner == name)
        return own or tuple(secret for owner, secret in entries if not owner)

    @staticmethod
    def _entry(line: str) -> Entry | None:
        """Return the name and the secret in a line; None if it is not valid."""
        name, colon, secret = line.rpartition(":")
        if (colon and not _NAME.fullmatch(name)) or not _SECRET.fullmatch(secret):
            return None
        if not secret.startswith(SECRET_PREFIX):
            return Entry(name, secret.encode())
        try:
            return Entry(name, base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True))
        except ValueError:
            return None


def _seconds_of(moment: str) -> float:
    """Return a moment of a file in seconds since 1970. ValueError if it is none."""
    return datetime.strptime(moment, _MOMENT).replace(tzinfo=timezone.utc).timestamp()


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Say that this file cannot be read."""
    try:
        yield
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}.") from error


def digest_of(secret: str) -> bytes:
    """Return the digest of a key, which does not reveal it."""
    # A header may contain any bytes.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
