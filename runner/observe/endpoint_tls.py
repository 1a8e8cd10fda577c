"""TLS of `/metrics`: the certificate that somebody mounts, read again whenever it changes, else a self-signed one.

The files are looked at when a client connects, so a renewed certificate is served from the next connection on, and
one that is mounted only after the start is found, too.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runner.errors import ConfigError
from runner.logs import Logger

_LIFETIME = timedelta(days=3650)
_LONGEST_COMMON_NAME = 64
_CLOCK_SKEW = timedelta(hours=1)
Signature = tuple[tuple[int, int, int], ...]
"""What tells one state of the files from another."""


class ServingCertificate:
    """Gives a TLS context that follows `tls.crt` and `tls.key` in a folder."""

    def __init__(self, folder: Path, *, logger: Logger, observe: Callable[[bool], None] = lambda _: None) -> None:
        """Look into *folder*; *observe* is told whether a reading succeeded."""
        self._files = (folder / "tls.crt", folder / "tls.key")
        self._logger = logger
        self._observe = observe
        self._current: ssl.SSLContext | None = None
        self._seen: Signature | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context for the server.

        Raises:
            ConfigError: the files are there and cannot be used.
        """
        try:
            self._follow()
        except OSError as error:
            raise ConfigError(
                f"cannot use the certificate {self._files[0]} with the key {self._files[1]}: {error}; mount a matching "
                "pair in PEM, or none for a self-signed one"
            ) from error
        if self._current is None:
            self._logger.info("No serving certificate is mounted; using a self-signed one", file=str(self._files[0]))
            self._current = _self_signed()
        self._current.sni_callback = self._on_hello
        return self._current

    def _on_hello(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Give a connection that comes up the newest certificate; the old one serves while the new one is broken."""
        try:
            if self._follow():
                self._logger.info("Read the serving certificate again", file=str(self._files[0]))
        except OSError as error:
            self._logger.error("The serving certificate cannot be read; the one before it serves", error=str(error))
        if self._current is not None:
            connection.context = self._current

    def _follow(self) -> bool:
        """Read the files if they are there and changed; tell whether they were read."""
        signature = self._signature()
        if signature is None or signature == self._seen:
            return False
        self._seen = signature
        fresh = _server_context()
        try:
            fresh.load_cert_chain(*self._files)
        except OSError:  # ssl.SSLError is one
            self._observe(False)  # noqa: FBT003 - a callback of one value
            raise
        self._observe(True)  # noqa: FBT003 - a callback of one value
        self._current = fresh
        return True

    def _signature(self) -> Signature | None:
        try:
            stats = [path.stat() for path in self._files]
        except OSError:
            return None
        return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def self_signed_pair(*names: str) -> tuple[bytes, bytes]:
    """Return a new certificate for *names* (DNS names and addresses), and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:_LONGEST_COMMON_NAME])])
    hosts = [_general_name(host) for host in dict.fromkeys(names)]
    now = datetime.now(tz=UTC)
    builder = (
        x509
        .CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate, private


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _self_signed() -> ssl.SSLContext:
    """Return a context with a new certificate for localhost and 127.0.0.1."""
    certificate, private = self_signed_pair("localhost", "127.0.0.1")
    context = _server_context()
    # Python's ssl reads certificates from files only; this one is private, and gone at once.
    descriptor, path = tempfile.mkstemp(prefix="metrics-tls-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + private)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()
    return context
