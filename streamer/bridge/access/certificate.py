"""The service's certificate, for TLS 1.2 or newer. A renewed file is used from the next handshake on."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamer.bridge.access.watched_files import WatchedFiles
from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")


class CertificateError(Exception):
    """The certificate cannot be used. The message is a sentence for the operator."""


class Certificate:
    """A chain and its private key, in one file or two."""

    def __init__(self, chain: Path, key: Path | None = None) -> None:
        self._chain, self._key = chain, key
        self._failure = ""  # of the last reading
        self.pem = b"", b""  # the private key and the chain, for what does not take a context
        with self._said():
            # A new context each time: if only one of the two files is new, the context in use must stay as it is.
            self._files = WatchedFiles([chain, key or chain], self._read)
            self.context = self._read()  # to listen with
        # Called in every handshake, whether the client names a server or not.
        self.context.sni_callback = self._choose

    def refresh(self) -> None:
        """Read the files again if they have changed. If they cannot be used, keep the present certificate."""
        try:
            with self._said():
                changed = self._files.refresh()
            self._failure = ""
            if changed:
                log.info("certificate read again")
        except CertificateError as error:
            if str(error) != self._failure:
                log.error("certificate not read again, the old one stays", reason=str(error))
            self._failure = str(error)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        self.refresh()
        connection.context = self._files.content

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        pem = (self._key or self._chain).read_bytes(), self._chain.read_bytes()
        try:
            context.load_cert_chain(self._chain, self._key, password=_no_password)
        except ssl.SSLError as error:
            where = f"{self._chain} and {self._key}" if self._key else str(self._chain)
            why = error.reason.replace("_", " ").lower() if error.reason else "no PEM certificate with its key"
            raise CertificateError(f"{where} cannot be used for TLS: {why}.") from error
        self.pem = pem
        return context

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Say which file cannot be read."""
        try:
            yield
        except OSError as error:
            raise CertificateError(f"{error.filename or self._chain} cannot be read: {error.strerror}.") from error


def _no_password() -> str:
    raise CertificateError("The private key has a password, which the service cannot ask for: use a key without one.")
