"""What stands in the store of several bridges: the names of its entries, and their signatures.

Every entry is signed for its place with a secret that the bridges share.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from pathlib import Path
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.workers.others import Counted

_FORMAT: Final = 1  # of entries: those in others, of later versions, count as missing
SHORTEST_SECRET: Final = 32  # characters
_SIGNATURE: Final = hashlib.sha256().digest_size * 2  # as text
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NAME_BYTES: Final = 5  # of the random name of a bridge, as text twice as many
_PREFIX: Final = "streamer:"
PROCESSES: Final = f"{_PREFIX}processes"


class StoreError(Exception):
    """The store cannot be used with these settings. The message is a sentence for the operator."""


def read_secret(path: Path) -> bytes:
    """Read the secret that the bridges share. StoreError if it cannot be used."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from error
    if len(secret) < SHORTEST_SECRET:
        raise StoreError(
            f"{path} must have a secret of at least {SHORTEST_SECRET} characters: `openssl rand -hex 32` makes one."
        )
    return secret


class Seal:
    """Signs entries, each for its place, and pseudonyms of what the store need not know."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.sha256(b"streamer store\0" + secret).digest()
        self.salt = hmac.digest(self._key, b"callers", "sha256")[:16]

    def sign(self, place: str, content: JsonObject) -> bytes:
        """Return an entry for this place."""
        text = json.dumps({**content, "format": _FORMAT}, separators=(",", ":")).encode()
        return self._signature(place, text) + text

    def open(self, place: str, entry: bytes) -> JsonObject | None:
        """Return the content of an entry of this place; None if no bridge has signed it."""
        signature, text = entry[:_SIGNATURE], entry[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._signature(place, text)):
            return None
        content: JsonObject = json.loads(text)  # a bridge has written it
        return content if content.get("format") == _FORMAT else {}

    def label(self, kind: str, name: str) -> str:
        """Return a name by which the store has this key or network. Addresses stay unknown to it."""
        if kind in ("key", Counted.OF_KEY.value):
            return f"key {name}"
        return "network " + hashlib.blake2b(name.encode(), key=self._key, digest_size=8).hexdigest()

    def _signature(self, place: str, text: bytes) -> bytes:
        return hmac.digest(self._key, place.encode() + b"\0" + text, "sha256").hex().encode()


def bridge_name(salt: bytes) -> str:
    """Return a name for a bridge, made of something that its workers alone share."""
    return hashlib.blake2b(salt, digest_size=_NAME_BYTES).hexdigest()


def is_bridge(text: str) -> bool:
    """Return whether this may be the name of a bridge."""
    return len(text) == 2 * _NAME_BYTES and text.isascii() and text.isalnum()


def is_place(text: str) -> bool:
    """Return whether this names a process: its bridge, its number among the workers, and which process it is."""
    worker, _, process = text.partition(".")[2].partition(".")
    return len(text) < 64 and is_bridge(bridge_of_place(text)) and worker.isdecimal() and process.isalnum()


def bridge_of_place(place: str) -> str:
    """Return the bridge of a process."""
    return place.partition(".")[0]


def is_usage(text: str) -> bool:
    """Return whether this names what a process used on a day: the day and its place."""
    day, _, place = text.partition(" ")
    return _DAY.fullmatch(day) is not None and is_place(place)


def worker_of_place(place: str) -> int:
    """Return the number of a process among the workers of its bridge."""
    return int(place.split(".")[1])


def name_of_place(place: str) -> str:
    """Return what an operator calls a process."""
    bridge, worker = bridge_of_place(place), worker_of_place(place)
    return f"Worker {worker} of bridge {bridge}" if worker else f"Bridge {bridge}"


def process_entry(place: str) -> str:
    """Return where a process tells what it has."""
    return f"{_PREFIX}process:{place}"


def audio_entry(place: str) -> str:
    """Return where a process tells what audio it received in the last hour."""
    return f"{_PREFIX}audio:{place}"


def claims_to(bridge: str, worker: int) -> str:
    """Return where other bridges claim sessions of this process."""
    return f"{_PREFIX}claims:{bridge}.{worker}"


def questions_to(bridge: str, worker: int) -> str:
    """Return where other bridges ask this process."""
    return f"{_PREFIX}questions:{bridge}.{worker}"


def usages_of(month: str) -> str:
    """Return where the names of all usage entries of a month are."""
    return f"{_PREFIX}usages:{month}"


def usage_entry(name: str) -> str:
    """Return where a process tells what keys used on a day. `name`: the day and the place of the process."""
    return f"{_PREFIX}usage:{name}"


def new_answer() -> str:
    """Return a place for the answer to a question, which nobody can guess."""
    return f"{_PREFIX}answer:{secrets.token_hex(8)}"
