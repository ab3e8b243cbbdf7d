"""What `serve` is told about who may come in: its arguments, and what the port is guarded with because of them."""

from __future__ import annotations

import argparse
import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.bridge.access.certificate import Certificate, CertificateError
from streamer.bridge.access.keys import KeyFile, KeyFileError
from streamer.bridge.access.port_policy import HANDSHAKE_LIMIT_S, LARGEST_MESSAGE, PortPolicy
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import ANY_ORIGIN, AccessRules, origin_of
from streamer.commands.arguments.parser import within
from streamer.triton import TritonError

if TYPE_CHECKING:
    from streamer.triton.dialer import Dialer

# A smaller message could not hold `start` with its hot words; a larger one is a file and no stream.
SMALLEST_MESSAGE: Final = 64 * 1024
MOST_MESSAGE: Final = 64 * 1024 * 1024
START_LIMIT_S: Final = 10.0
IDLE_LIMIT_S: Final = 60.0
RESUME_LIMIT_S: Final = 30.0
# A client of ours says every five seconds that it is still there, and others may do with less.
SHORTEST_LIMIT_S, LONGEST_LIMIT_S = 1.0, 3600.0


class EntranceError(Exception):
    """The service should not be opened like this; the message says why and what to do."""


def add_entrance_arguments(parser: argparse.ArgumentParser) -> None:
    """Keys, origins, TLS, and what one caller may have."""
    add = parser.add_argument_group("who may come in (docs/security.md)").add_argument
    add("--keys", type=Path, metavar="FILE", help="only who has one of these keys; 'streamer key NAME' makes them")
    add("--open", action="store_true", help="listen for other machines although there are no keys")
    add(
        "--origin",
        action="append",
        type=_origin,
        default=[],
        metavar="URL",
        help="pages of this site may use the service too, as https://example.org; may be given several times; "
        f"'{ANY_ORIGIN}' is any (pages of the service itself)",
    )
    add("--tls-cert", type=Path, metavar="FILE", help="certificate and what leads to its root, PEM: wss and https")
    add("--tls-key", type=Path, metavar="FILE", help="its private key, if it is not in the same file")
    add(
        "--behind-proxy",
        nargs="?",
        type=within(1, 8, int),
        const=1,
        default=0,
        metavar="N",
        help="N proxies (1) stand in front and tell in X-Forwarded-For who asks; without this it is not believed",
    )
    add("--open-metrics", action="store_true", help="/metrics needs no key")
    add = parser.add_argument_group("what one caller may have").add_argument
    add("--per-key", type=within(1, 100_000, int), metavar="N", help="sessions of a key at a time (no limit)")
    add("--per-address", type=within(1, 100_000, int), metavar="N", help="sessions of an address (no limit)")
    add(
        "--audio-per-key",
        type=within(1, 1e9),
        metavar="SECONDS",
        help="audio of a key within an hour, all its sessions and channels together (no limit)",
    )
    add(
        "--max-message",
        type=within(SMALLEST_MESSAGE, MOST_MESSAGE, int),
        default=LARGEST_MESSAGE,
        metavar="BYTES",
        help=f"the largest message ({LARGEST_MESSAGE})",
    )
    for name, default, meaning in (
        ("--handshake-limit", HANDSHAKE_LIMIT_S, "for TLS, and for the request after it"),
        ("--start-limit", START_LIMIT_S, "from the connection to 'start'"),
        ("--idle-limit", IDLE_LIMIT_S, "without audio and keepalive"),
    ):
        seconds = within(SHORTEST_LIMIT_S, LONGEST_LIMIT_S)
        add(name, type=seconds, default=default, metavar="SECONDS", help=f"{meaning} ({default:g})")
    add(
        "--resume-limit",
        type=within(0, LONGEST_LIMIT_S),
        default=RESUME_LIMIT_S,
        metavar="SECONDS",
        help=f"for a client that lost its connection to come back, 0 to end its session at once ({RESUME_LIMIT_S:g})",
    )

    add = parser.add_argument_group("Tritons elsewhere (--triton)").add_argument
    add("--triton-tls", action="store_true", help="they are spoken to with TLS")
    add("--triton-ca", type=Path, metavar="FILE", help="roots of their certificates, instead of those that gRPC knows")
    add("--triton-cert", type=Path, metavar="FILE", help="certificate of this service, for Tritons that ask for one")
    add("--triton-key", type=Path, metavar="FILE", help="its private key")
    add("--triton-metadata", type=Path, metavar="FILE", help="lines 'name: value' that go with every call, as keys do")


def triton_dial(options: argparse.Namespace) -> Dialer | None:
    """How Tritons elsewhere are reached, if not in the clear; EntranceError if it does not go together."""
    given = [name for name in ("tls", "ca", "cert", "key", "metadata") if getattr(options, f"triton_{name}")]
    if given and not options.triton:
        raise EntranceError(f"--triton-{given[0]} is about Tritons elsewhere: give --triton too.")
    if given and not options.triton_tls:
        raise EntranceError(f"--triton-{given[0]} goes with TLS alone: give --triton-tls too.")
    if bool(options.triton_cert) != bool(options.triton_key):
        raise EntranceError("--triton-cert and --triton-key belong together: give both.")
    if not given:
        return None
    try:
        # Only now: gRPC takes longer to import than everything else here.
        from streamer.triton.dialer import secure

        return secure(options.triton_ca, options.triton_cert, options.triton_key, options.triton_metadata)
    except (TritonError, ImportError) as error:
        raise EntranceError(str(error)) from error


def entrance(options: argparse.Namespace) -> PortPolicy:
    """The entrance that a command line describes; EntranceError if it would be an unsafe one, or cannot be."""
    if options.keys is None:
        for name in ("per_key", "audio_per_key"):
            if getattr(options, name) is not None:
                raise EntranceError(f"--{name.replace('_', '-')} counts by key: give --keys too.")
        if not options.open and not is_local(options.host):
            raise EntranceError(
                f"{options.host} can be reached from other machines, and whoever reaches it could use the service: "
                "give --keys FILE, or --open if that is what you want."
            )
    if options.tls_key and not options.tls_cert:
        raise EntranceError("--tls-key belongs to a certificate: give --tls-cert too.")
    try:
        access = AccessRules(
            KeyFile(options.keys) if options.keys else None,
            origins=options.origin,
            proxies=options.behind_proxy,
            shares=QuotaLimits(options.per_key, options.per_address, options.audio_per_key),
            open_metrics=options.open_metrics,
        )
        certificate = Certificate(options.tls_cert, options.tls_key) if options.tls_cert else None
    except (KeyFileError, CertificateError) as error:
        raise EntranceError(str(error)) from error
    return PortPolicy(access, certificate, options.max_message, options.handshake_limit)


def is_local(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        found = socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in found)


def _origin(text: str) -> str:
    origin = origin_of(text)
    if origin is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no origin; write https://example.org, without a path.")
    return origin
