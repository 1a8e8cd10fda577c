"""Finds out whom a machine can trust: the CA in `cluster-info`, by a token's signature and the hash of its key.

The same steps as `kubeadm join`: read `kube-public/cluster-info` from whoever answers, believe it only where the
token's secret has signed it and a pin matches, and read it again over a connection that this CA secures.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from runner.errors import LocalPlaneError
from runner.localdev.api import Api
from runner.localdev.machines.join import K3S, Join

_PATH = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

Patience = Callable[[str], None]
"""Takes the reason for another try and returns in a moment; raises `LocalPlaneError` when there is no time left."""


def find_authority(join: Join, *, patience: Patience) -> str:
    """Return the CA in PEM.

    Raises:
        LocalPlaneError: nobody who can be trusted answered in time.
    """
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    ident, _, secret = join.token.partition(".")
    while True:
        data = _read(Api(join.server, context=unverified), patience=patience)
        signature = data.get(f"jws-kubeconfig-{ident}")
        if join.style == K3S or signature is not None:
            break  # k3s has no signature
        patience(f"cluster-info has no signature of the token id {ident}: is it a token of this cluster?")
    content = str(data.get("kubeconfig", ""))
    if signature is not None and not is_signed(content, signature=str(signature), ident=ident, secret=secret):
        raise LocalPlaneError(f"the signature of the token id {ident} in cluster-info is of another secret")
    authority = _authority_in(content)
    if not is_trusted(authority, join=join):
        found = ", ".join(hashes_of(authority)) or "none"
        raise LocalPlaneError(f"none of the pinned hashes is that of the cluster's CA (it has {found})")
    secured = _read(Api(join.server, context=trusting(authority)), patience=patience)
    if secured.get("kubeconfig") != data.get("kubeconfig"):
        raise LocalPlaneError("cluster-info is another one over a secured connection")
    return authority


def is_signed(content: str, *, signature: str, ident: str, secret: str) -> bool:
    """Tell whether *signature*, a JWS without its content, is that of *content* by the token's secret."""
    header, dots, given = signature.partition("..")
    try:
        fields = json.loads(_base64url(header))
    except ValueError:
        return False
    if not dots or not isinstance(fields, Mapping) or fields.get("alg") != "HS256" or fields.get("kid") != ident:
        return False
    payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
    wanted = hmac.new(secret.encode(), f"{header}.{payload}".encode(), hashlib.sha256).digest()
    try:
        return hmac.compare_digest(wanted, _base64url(given))
    except ValueError:
        return False


def hashes_of(authority: str) -> list[str]:
    """Return kubeadm's hash of each certificate's public key: `sha256:HEX`."""
    try:
        certificates = x509.load_pem_x509_certificates(authority.encode())
    except ValueError:
        return []
    encoding = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    keys = [certificate.public_key().public_bytes(*encoding) for certificate in certificates]
    return [f"sha256:{hashlib.sha256(key).hexdigest()}" for key in keys]


def bundle_hashes(authority: str) -> list[str]:
    """Return what a k3s token may have: the hash of the text, or of the last certificate, the root."""
    try:
        certificates = x509.load_pem_x509_certificates(authority.encode())
    except ValueError:
        return []
    roots = [certificate.public_bytes(serialization.Encoding.DER) for certificate in certificates[-1:]]
    return [f"sha256:{hashlib.sha256(raw).hexdigest()}" for raw in (authority.encode(), *roots)]


def is_trusted(authority: str, *, join: Join) -> bool:
    """Tell whether *join* lets its machine believe a discovered *authority*; a hash counts even if none is needed."""
    if join.unsafe and not join.pins:
        return True
    known: Sequence[str] = bundle_hashes(authority) if join.style == K3S else hashes_of(authority)
    return any(pin.lower() in known for pin in join.pins)


def trusting(authority: str) -> ssl.SSLContext:
    """Return what trusts the certificates of *authority* and no others.

    Raises:
        LocalPlaneError: there is no certificate in it.
    """
    try:
        return ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise LocalPlaneError(f"the CA of the cluster is no certificate: {error}") from error


def _read(api: Api, *, patience: Patience) -> Mapping[str, Any]:
    """Return the data of cluster-info, from whoever answers."""
    while True:
        try:
            status, raw = api.send("GET", _PATH)
        except ssl.SSLCertVerificationError as error:
            raise LocalPlaneError(f"the API server can't be trusted: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            patience(f"the API server does not answer: {error}")
            continue
        if status == 200:
            data: Mapping[str, Any] = json.loads(raw).get("data") or {}
            return data
        patience(f"kube-public/cluster-info can't be read: {status}")


def _authority_in(content: str) -> str:
    try:
        clusters = yaml.safe_load(content)["clusters"]
        return base64.b64decode(clusters[0]["cluster"]["certificate-authority-data"]).decode()
    except (yaml.YAMLError, KeyError, IndexError, TypeError, ValueError) as error:
        raise LocalPlaneError("cluster-info has no kubeconfig with a CA") from error


def _base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
