"""How the port is guarded: who may come in, under which certificate, and how much at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.rules import AccessRules

LARGEST_MESSAGE = 1024 * 1024  # 32 s of audio
HANDSHAKE_LIMIT_S = 10.0


@dataclass(frozen=True)
class PortPolicy:
    """As given: no keys, no TLS, and what suits a service on loopback."""

    access: AccessRules = field(default_factory=AccessRules)
    certificate: Certificate | None = None
    largest_message: int = LARGEST_MESSAGE  # bytes
    handshake_s: float = HANDSHAKE_LIMIT_S  # for TLS, and then for the request
