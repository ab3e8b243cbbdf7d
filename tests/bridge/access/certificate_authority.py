"""A certificate authority for tests, and its certificates for localhost."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


class Authority:
    """Issues certificates for localhost, in the two files that a service reads."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key, self.root = folder / "chain.pem", folder / "key.pem", folder / "root.pem"
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.root))
        self.renew()

    def renew(self, chain: bool = True, key: bool = True) -> None:
        """Write a new certificate; optionally only one of its two files."""
        issued = self._authority.issue_cert("localhost")
        if chain:
            self.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        if key:
            self.key.write_bytes(issued.private_key_pem.bytes())

    def lock(self) -> None:
        """Give the private key a password."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        form, encryption = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
        self.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))

    @property
    def trusted(self) -> ssl.SSLContext:
        """Make a context for a client that trusts this authority."""
        return ssl.create_default_context(cafile=str(self.root))
