"""Whom a machine believes: the token's signature on cluster-info, and hashes of the CA; and what is tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from runner.errors import LocalPlaneError
from runner.localdev.api import Api
from runner.localdev.machines import kubelet
from runner.localdev.machines.discovery import (
    bundle_hashes,
    find_authority,
    hashes_of,
    is_signed,
    is_trusted,
    trusting,
)
from runner.localdev.machines.join import K3S, KUBEADM, Join
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


def test_a_hash_counts_even_where_none_is_needed(tmp_path: Path) -> None:
    """With a hash and the flag that skips it kubeadm checks the hash; without any, the flag lets all pass."""
    authority = Authority(tmp_path).certificate.read_text()
    right, wrong = tuple(hashes_of(authority)), ("sha256:" + "0" * 64,)
    trusted = {
        (pins, unsafe): is_trusted(authority, join=Join(style=KUBEADM, server="https://s:1", pins=pins, unsafe=unsafe))
        for pins in (right, wrong, ())
        for unsafe in (True, False)
    }
    assert trusted == {
        (right, True): True, (right, False): True,
        (wrong, True): False, (wrong, False): False,
        ((), True): True, ((), False): False,
    }  # fmt: skip


def test_a_ca_that_is_no_certificate_is_refused() -> None:
    """What cluster-info calls a CA and isn't one ends the join with a sentence."""
    with pytest.raises(LocalPlaneError, match="is no certificate"):
        trusting("nonsense")


class Tried(Exception):
    """There was patience."""


def patience(reason: str) -> None:
    """Let nobody wait."""
    raise Tried(reason)


class _HangUp(socketserver.BaseRequestHandler):
    """Closes the connection after the first words of a TLS client, as a server does that is being ended."""

    def handle(self) -> None:
        """Hear, and say nothing."""
        self.request.recv(4096)


@pytest.fixture
def hanging_up() -> Iterator[str]:
    """Give the URL of a server that is about to go."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _HangUp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_handshake_that_breaks_off_is_tried_again(hanging_up: str, tmp_path: Path) -> None:
    """An API server that is just restarted is no reason to give up: neither for discovery nor for the kubelet."""
    join = Join(style=K3S, server=hanging_up, token=f"{IDENT}.{SECRET}", unsafe=True)
    with pytest.raises(Tried, match="does not answer"):
        find_authority(join, patience=patience)
    api = kubelet.bootstrap_api(join, authority=Authority(tmp_path).certificate.read_text())
    with pytest.raises(Tried, match="does not answer"):
        kubelet.certificate(api, name="node", patience=patience)


class Untrusted(Api):
    """A server with a certificate of another authority."""

    def send(self, method: str, path: str, **_: object) -> tuple[int, bytes]:
        """Be found out."""
        raise ssl.SSLCertVerificationError(f"{method} {path}: certificate verify failed")


def test_a_server_of_another_ca_is_not_tried_again() -> None:
    """A certificate that can't be verified stays so: the kubelet says that, and waits for nothing."""
    with pytest.raises(LocalPlaneError, match=r"can't be trusted: .*certificate verify failed"):
        kubelet.certificate(Untrusted("https://127.0.0.1:1"), name="node", patience=patience)
