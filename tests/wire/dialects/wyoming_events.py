"""Writes and reads Wyoming's events as its original client does, without its package."""

from __future__ import annotations

import json
from typing import Any


def event(kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> bytes:
    """Write an event."""
    line: dict[str, Any] = {"type": kind, "version": "1.10.2"}
    behind = json.dumps(data, ensure_ascii=True).encode() if data else b""
    if behind:
        line["data_length"] = len(behind)
    if payload:
        line["payload_length"] = len(payload)
    return json.dumps(line).encode() + b"\n" + behind + payload


def read(text: str) -> tuple[str, dict[str, Any]]:
    """Read the only event of this text: its type, and its data."""
    first, _, behind = text.encode().partition(b"\n")
    line: dict[str, Any] = json.loads(first)
    assert len(behind) == line.get("data_length", 0)
    return line["type"], json.loads(behind) if behind else {}
