"""Makes the objects for access from the settings of `serve`: who may use the port, and how to reach Tritons."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from streamer.bridge.access.call_signatures import CallSignatures
from streamer.bridge.access.keys import KeyFile, KeyFileError, SecretFile
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.quotas import Fetch, QuotaLimits, UploadLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy, WebhookRules
from streamer.bridge.telemetry.usage import UsageError, UsageFile
from streamer.bridge.triton import TritonError
from streamer.commands.settings.configuration import Configuration
from streamer.commands.settings.serve import ServeSettings

if TYPE_CHECKING:
    from streamer.bridge.session.deadlines import Limits
    from streamer.bridge.triton.link import Dialer
    from streamer.bridge.workers.others import Others


class PortPolicyError(Exception):
    """The service must not start with these settings. The message says why, and what to do."""


def triton_dial(configuration: Configuration) -> Dialer | None:
    """Return how to connect to other Tritons; None for no TLS. PortPolicyError if settings contradict each other."""
    settings, label = configuration.settings, configuration.label
    names = ("triton_tls", "triton_ca", "triton_cert", "triton_key", "triton_metadata")
    names_set = [name for name in names if getattr(settings, name)]
    if names_set and not settings.triton:
        raise PortPolicyError(f"{label(names_set[0])} is only for Tritons that run elsewhere: give --triton too.")
    if names_set and not settings.triton_tls:
        raise PortPolicyError(f"{label(names_set[0])} needs TLS: give --triton-tls too.")
    if bool(settings.triton_cert) != bool(settings.triton_key):
        raise PortPolicyError("--triton-cert and --triton-key belong together: give both.")
    if not names_set:
        return None
    try:
        # Imported only here: gRPC takes longer to import than everything else together.
        from streamer.bridge.triton.link import secure_dialer

        return secure_dialer(settings.triton_ca, settings.triton_cert, settings.triton_key, settings.triton_metadata)
    except (TritonError, ImportError) as error:
        raise PortPolicyError(str(error)) from error


def port_policy(configuration: Configuration, others: Others | None = None, worker: int = 0) -> PortPolicy:
    """Return who may use the port, and with which certificate. PortPolicyError if that is unsafe or impossible.

    `others`, `worker`: the other workers and the number of this one, if it is one of several. The process that started
    it then has the usage file.
    """
    from streamer.bridge.access.certificate import Certificate, CertificateError  # imports ssl

    settings, label = configuration.settings, configuration.label
    if settings.keys is None:
        for name in ("per_key", "audio_per_key"):
            if getattr(settings, name) is not None:
                raise PortPolicyError(f"{label(name)} is a limit for each key: give --keys too.")
        if settings.usage_file is not None:
            raise PortPolicyError(f"{label('usage_file')} has what each key uses: give --keys too.")
        if not settings.open and not is_local(settings.host):
            raise PortPolicyError(
                f"{settings.host or 'Every address'} can be reached from other machines, and anybody there could use "
                "the service: give --keys FILE, or --open if you want that."
            )
    wyoming = None if settings.wyoming_port is None else (settings.wyoming_host, settings.wyoming_port)
    if wyoming is None and "wyoming_host" in configuration.entries:
        raise PortPolicyError(f"{label('wyoming_host')} is the address of another port: give --wyoming-port too.")
    if wyoming is not None and not settings.open and not is_local(settings.wyoming_host):
        raise PortPolicyError(
            f"{label('wyoming_host')}: {settings.wyoming_host or 'every address'} can be reached from other machines, "
            "and Wyoming has no keys, so anybody there could use the service: give --open too if you want that."
        )
    grpc = None if settings.grpc_port is None else (settings.grpc_host, settings.grpc_port)
    if grpc is None and "grpc_host" in configuration.entries:
        raise PortPolicyError(f"{label('grpc_host')} is the address of another port: give --grpc-port too.")
    if grpc is not None and settings.keys is None and not settings.open and not is_local(settings.grpc_host):
        raise PortPolicyError(
            f"{label('grpc_host')}: {settings.grpc_host or 'every address'} can be reached from other machines, and "
            "anybody there could use the service: give --keys FILE, or --open if you want that."
        )
    if settings.twilio_url is not None and settings.twilio_tokens is None:
        raise PortPolicyError(f"{label('twilio_url')} is what signatures are over: give --twilio-tokens too.")
    if settings.webhook_secrets is None:
        for name in ("webhook", "webhooks"):
            if getattr(settings, name) not in (None, Fetch.OFF):
                raise PortPolicyError(f"{label(name)} needs secrets for its signatures: give --webhook-secrets too.")
    if settings.behind_proxy and settings.trust_proxy:
        raise PortPolicyError(
            f"{label('behind_proxy')} counts proxies whose addresses are not known: leave it out, or --trust-proxy."
        )
    if settings.proxy_protocol and not settings.trust_proxy:
        raise PortPolicyError(
            f"{label('proxy_protocol')} is believed only from known proxies: give their addresses with --trust-proxy."
        )
    if settings.proxy_protocol and grpc is not None:
        raise PortPolicyError(
            f"{label('grpc_port')}: gRPC cannot read headers of the PROXY protocol, so the addresses of its clients "
            "would not be known. Serve gRPC without --proxy-protocol; a proxy of HTTP/2 says X-Forwarded-For."
        )
    if settings.tls_key and not settings.tls_cert:
        raise PortPolicyError(f"{label('tls_key')} belongs to a certificate: give --tls-cert too.")
    proxies = Proxies(settings.trust_proxy, number=settings.behind_proxy)
    try:
        access = AccessRules(
            KeyFile(settings.keys) if settings.keys else None,
            origins=settings.origin,
            proxies=proxies,
            quotas=QuotaLimits(
                settings.per_key,
                settings.per_address,
                settings.audio_per_key,
                settings.hotwords_per_key,
                settings.hotwords_per_address,
            ),
            open_metrics=settings.open_metrics,
            others=_store(configuration, others, worker),
            calls=CallSignatures(
                SecretFile(settings.twilio_tokens) if settings.twilio_tokens else None,
                address=settings.twilio_url or "",
                unsigned=settings.twilio_unsigned,
            ),
        )
        secrets = SecretFile(settings.webhook_secrets) if settings.webhook_secrets else None
        certificate = Certificate(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
        usage_file = UsageFile(settings.usage_file) if settings.usage_file and others is None else None
    except (KeyFileError, CertificateError, UsageError) as error:
        raise PortPolicyError(str(error)) from error
    uploads = UploadLimits(settings.max_upload, settings.longest_upload, settings.uploads, Fetch(settings.fetch))
    announcing = proxies if settings.proxy_protocol else Proxies()
    return PortPolicy(
        access,
        certificate,
        settings.max_message,
        settings.handshake_limit,
        uploads,
        announcing,
        usage_file,
        settings.root,
        wyoming,
        grpc,
        settings.share,
        WebhookRules(Fetch(settings.webhooks), settings.webhook or "", secrets),
        settings.usage_file,
    )


def _store(configuration: Configuration, others: Others | None, worker: int) -> Others | None:
    """Return the others, with those at other bridges if there is a store. PortPolicyError if it cannot be used."""
    settings, label = configuration.settings, configuration.label
    if settings.store is None:
        if settings.store_secret is not None:
            raise PortPolicyError(f"{label('store_secret')} signs what is in a store: give --store too.")
        return others
    if settings.store_secret is None:
        raise PortPolicyError(
            f"{label('store')} needs a secret of all bridges, because others may write there: give --store-secret FILE."
        )
    from streamer.bridge.workers.others import Alone
    from streamer.bridge.workers.store import Store  # imports asyncio and redis
    from streamer.bridge.workers.store_entries import StoreError, read_secret

    try:
        return Store(settings.store, read_secret(settings.store_secret), others or Alone(), worker)
    except StoreError as error:
        raise PortPolicyError(str(error)) from error


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server at this address."""
    try:
        addresses = socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in addresses)


def session_limits(settings: ServeSettings) -> Limits:
    """Return the limits of a session in these settings."""
    from streamer.bridge.session.deadlines import Limits

    return Limits(start_s=settings.start_limit, idle_s=settings.idle_limit, resume_s=settings.resume_limit)
