"""API keys: a file with a line `name:sha256:…` for each, read again when it changes.

A key is 256 random bits, so nobody finds it by trying, however fast the hash is: SHA-256 it is. A slow hash such as
scrypt protects what people choose themselves; here it would only let strangers keep the processor busy with
handshakes. Standard library only: `streamer key` needs nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

# So that programs that look for secrets in code can find one of ours.
PREFIX = "streamer_"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
# A file may change twice within one tick of its clock: what is so new is read again the next time.
_FRESH_NS = 2_000_000_000


class KeyFileError(Exception):
    """The file cannot be used; the message is a sentence for whoever runs the service."""


@dataclass(frozen=True)
class Key:
    """A new key: the secret for its holder, the line for the file."""

    secret: str
    line: str


def make_key(name: str) -> Key:
    """A new random key of this name; ValueError if it is no name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name of a key must be 1 to 64 letters, digits and . _ -, not '{name}'")
    secret = PREFIX + secrets.token_urlsafe(32)
    return Key(secret, f"{name}:sha256:{_digest(secret).hex()}")


class KeyFile:
    """The keys of a file. Several lines may have one name: that is how a key is replaced without a gap."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failure = ""  # of the last reading
        self._note(self._signature())
        self._entries = self._read()

    def __len__(self) -> int:
        self.refresh()
        return len(self._entries)

    def name_of(self, secret: str) -> str | None:
        """Whose key this is; None if it is nobody's. Every entry is compared, so the time tells nothing."""
        self.refresh()
        digest, found = _digest(secret), None
        for name, expected in self._entries:
            if hmac.compare_digest(digest, expected):
                found = name
        return found

    def refresh(self) -> None:
        """Reads the file again if it has changed; if it cannot be used, the keys stay."""
        try:
            signature = self._signature()
            if signature == self._seen and not self._fresh:
                return
            self._note(signature)
            before, self._entries, self._failure = self._entries, self._read(), ""
        except KeyFileError as error:
            # A file that is half written must lock nobody out, nor let anybody in.
            if str(error) != self._failure:
                log.error("keys not read again, the old ones stay", reason=str(error))
            self._failure = str(error)
        else:
            if self._entries != before:
                log.info("keys read again", keys=len(self._entries))

    def _note(self, signature: tuple[int, int, int]) -> None:
        self._seen = signature
        self._fresh = time.time_ns() - signature[0] < _FRESH_NS

    def _signature(self) -> tuple[int, int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise KeyFileError(f"{self._path} cannot be read: {error.strerror}.") from error
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> tuple[tuple[str, bytes], ...]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise KeyFileError(f"{self._path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise KeyFileError(f"{self._path} is no text.") from error
        entries: dict[bytes, str] = {}
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, _, hashed = text.partition(":")
            # The line is not repeated: somebody may have put the key itself there.
            if not _NAME.fullmatch(name) or not _HASH.fullmatch(hashed):
                raise KeyFileError(
                    f"Line {number} of {self._path} is no key: 'streamer key NAME' prints a line NAME:sha256:…"
                )
            digest = bytes.fromhex(hashed.removeprefix("sha256:"))
            if entries.setdefault(digest, name) != name:
                raise KeyFileError(f"Line {number} of {self._path} has a key that another name has already.")
        return tuple((name, digest) for digest, name in entries.items())


def _digest(secret: str) -> bytes:
    # What comes in a header may be any bytes.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
