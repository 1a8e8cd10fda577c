"""Whom a machine believes: the token's signature on cluster-info, and hashes of the CA."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from runner.localdev.machines.discovery import bundle_hashes, hashes_of, is_signed
from runner.localdev.pki import Authority

CONTENT = "kind: Config\n"
IDENT, SECRET = "abcdef", "0123456789abcdef"


def encoded(raw: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signature(*, algorithm: str = "HS256", ident: str = IDENT, secret: str = SECRET) -> str:
    """Return a JWS of the content without the content."""
    header = encoded(json.dumps({"alg": algorithm, "kid": ident}).encode())
    signed = f"{header}.{encoded(CONTENT.encode())}".encode()
    return f"{header}..{encoded(hmac.new(secret.encode(), signed, hashlib.sha256).digest())}"


def test_the_signature_of_the_token_is_believed() -> None:
    """Content that the token's secret signed is genuine."""
    assert is_signed(CONTENT, signature=signature(), ident=IDENT, secret=SECRET)


@pytest.mark.parametrize(
    "wrong",
    [
        signature(secret="x" * 16),
        signature(algorithm="none"),
        signature(ident="other1"),
        signature().replace("..", "."),
        signature()[:-4],
        "",
        "..",
        "!!..??",
    ],
)
def test_anything_else_is_not(wrong: str) -> None:
    """Another secret, another algorithm, another id or no signature at all proves nothing."""
    assert not is_signed(CONTENT, signature=wrong, ident=IDENT, secret=SECRET)


def test_changed_content_is_not_believed() -> None:
    """A signature belongs to one content."""
    assert not is_signed(CONTENT + "#", signature=signature(), ident=IDENT, secret=SECRET)


def test_the_hash_of_a_ca_is_that_of_its_public_key(tmp_path: Path) -> None:
    """The pin of kubeadm is over the key, that of k3s over the certificate."""
    text = Authority(tmp_path).certificate.read_text()
    certificate = x509.load_pem_x509_certificate(text.encode())
    der, spki = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    key = hashlib.sha256(certificate.public_key().public_bytes(der, spki)).hexdigest()
    assert hashes_of(text) == [f"sha256:{key}"]
    assert bundle_hashes(text) == [
        f"sha256:{hashlib.sha256(raw).hexdigest()}" for raw in (text.encode(), certificate.public_bytes(der))
    ]
    assert hashes_of("nonsense") == bundle_hashes("nonsense") == []
