"""Certificates of a local control plane: one authority, leaves for servers and clients, kubeconfigs.

`components` names the files that this writes. Keys are ECDSA and readable only by their owner; the extensions are
those that strict verifiers ask for.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)


def write_private(path: Path, data: bytes) -> None:
    """Write *data* to a file that only its owner can read, replacing one that is there at once."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    scratch.replace(path)


def new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Make a private key and keep it in *path*."""
    key = ec.generate_private_key(ec.SECP256R1())
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(path, key.private_bytes(*encoding))
    return key


def new_key_pair(private: Path, *, public: Path) -> None:
    """Make a key and keep both halves: what signs and what verifies service account tokens."""
    half = new_key(private).public_key()
    public.write_bytes(half.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))


def _subject(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class Authority:
    """A certificate authority whose files are `NAME.crt` and `NAME.key` in one folder, like those of its leaves."""

    def __init__(self, folder: Path, *, name: str = "ca", common_name: str = "ansible-operator-local-ca") -> None:
        """Make a new authority in *folder*, which exists."""
        self._folder = folder
        self._key = new_key(folder / f"{name}.key")
        self._name = _subject(common_name)
        self._issuer_key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.certificate = folder / f"{name}.crt"
        builder = self._builder(self._name, key=self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(authority=True), critical=True)
        self._sign(builder, path=self.certificate)

    @classmethod
    def load(cls, certificate: Path, *, folder: Path) -> Authority:
        """Return the authority that an earlier one of these keeps at *certificate*, with *folder* for new leaves."""
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        key = serialization.load_pem_private_key(certificate.with_suffix(".key").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{certificate} is no authority of a local control plane: its key is of another kind")
        authority = cls.__new__(cls)
        authority._folder, authority._key, authority._name = folder, key, known.subject  # noqa: SLF001 - it is one of us
        issuer = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        authority._issuer_key_id = issuer  # noqa: SLF001 - it is one of us
        authority.certificate = certificate
        return authority

    def issue(self, name: str, *, common_name: str, organization: str = "", hosts: Sequence[str] = ()) -> Path:
        """Issue a client certificate, that is a server's too where it has *hosts*; return the certificate's path."""
        key = new_key(self._folder / f"{name}.key")
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = self._builder(_subject(common_name, organization), key=key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        path = self._folder / f"{name}.crt"
        self._sign(builder, path=path)
        return path

    def _builder(self, subject: x509.Name, *, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        """Return what authority and leaves have in common."""
        now = datetime.now(tz=UTC)
        return (
            x509
            .CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._issuer_key_id), critical=False
            )
        )

    def _sign(self, builder: x509.CertificateBuilder, *, path: Path) -> None:
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def write_kubeconfig(path: Path, *, server: str, authority: Path, certificate: Path, key: Path) -> None:
    """Write a kubeconfig (as JSON, which is YAML) with one identity and everything inlined."""
    name = "local"

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": inline(authority)}}],
        "users": [
            {
                "name": certificate.stem,
                "user": {"client-certificate-data": inline(certificate), "client-key-data": inline(key)},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": certificate.stem}}],
    }
    write_private(path, json.dumps(document, indent=1).encode())
