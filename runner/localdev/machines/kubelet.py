"""A kubelet as the API server sees it: asks for a certificate with a token, registers its Node, keeps it alive.

`machine` calls it with what `styles` and `discovery` found. From the certificate on, all requests are those of
system:node:NAME, so the Node authorizer and NodeRestriction judge them as those of a real one.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runner.errors import LocalPlaneError
from runner.kube.objects import Object
from runner.localdev.api import Api
from runner.localdev.cache import kubernetes_version
from runner.localdev.components import FAKE_NODE_LABEL, FAKE_NODE_VALUE
from runner.localdev.machines.capacity import capacity_of
from runner.localdev.machines.discovery import Patience, trusting
from runner.localdev.machines.join import EKS, Join
from runner.localdev.machines.metadata import Metadata
from runner.localdev.nodes import COLLECTION, fake_node

MACHINE_ANNOTATION = "localdev.ansible-operator.io/instance"
"""On the Nodes of simulated machines: the instance's id."""
_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_MERGE = "application/merge-patch+json"


def node_of(join: Join, *, metadata: Metadata) -> Object:
    """Return the Node that the machine's kubelet registers.

    Zone, region and type, which on AWS the cloud controller manager adds a moment later, are there from the start.
    """
    flags = join.flags
    offers = capacity_of(metadata.instance_type, max_pods=flags.max_pods, by_interfaces=join.style == EKS)
    labels = {
        "kubernetes.io/arch": offers.architecture,
        "node.kubernetes.io/instance-type": metadata.instance_type,
        "topology.kubernetes.io/region": metadata.region,
        "topology.kubernetes.io/zone": metadata.zone,
        **flags.labels,
    }
    node = fake_node(
        flags.name or metadata.hostname,
        address=metadata.address,
        labels=labels,
        capacity=offers.capacity,
        provider_id=flags.provider_id or metadata.provider_id,
        version=kubernetes_version(),
    )
    status = node["status"]
    return {
        **node,
        "metadata": {**node["metadata"], "annotations": {MACHINE_ANNOTATION: metadata.instance_id}},
        "spec": {**node["spec"], "taints": [dict(taint) for taint in flags.taints]},
        "status": {
            **status,
            "allocatable": dict(offers.allocatable),
            "nodeInfo": {**status["nodeInfo"], "architecture": offers.architecture},
        },
    }


def certificate(api: Api, *, name: str, patience: Patience) -> bytes:
    """Return a signed certificate of the node *name* and its key, asked for with *api*'s bootstrap token.

    Raises:
        LocalPlaneError: the API server refused, or nobody signed in time.
    """
    calls = _Calls(api=api, patience=patience)
    key = ec.generate_private_key(ec.SECP256R1())
    request = calls.send("POST", _REQUESTS, body=_signing_request(name, key=key))
    path = f"{_REQUESTS}/{request['metadata']['name']}"
    while not (status := request.get("status") or {}).get("certificate"):
        bad = [entry for entry in status.get("conditions") or () if entry["type"] in {"Denied", "Failed"}]
        if bad:
            raise LocalPlaneError(f"the certificate of {name} is refused: {bad[0]['type']} {bad[0].get('message', '')}")
        patience(f"the certificate of {name} isn't signed: is there an approver and a signer?")
        request = calls.send("GET", path)
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return base64.b64decode(request["status"]["certificate"]) + key.private_bytes(*encoding)


def bootstrap_api(join: Join, *, authority: str) -> Api:
    """Return the API server as somebody with no more than the bootstrap token sees it.

    Raises:
        LocalPlaneError: *authority* is no certificate.
    """
    return Api(join.server, context=trusting(authority), token=join.token)


def node_api(server: str, *, authority: str, credentials: Path) -> Api:
    """Return the API server as the node itself sees it."""
    context = ssl.create_default_context(cadata=authority)
    context.load_cert_chain(credentials)
    return Api(server, context=context)


def start(api: Api, *, node: Object, patience: Patience) -> bool:
    """Register *node*, or take up the one of an earlier boot; return whether it is new.

    Raises:
        LocalPlaneError: the API server refused, or a Node of this name belongs to another machine.
    """
    calls, name = _Calls(api=api, patience=patience), node["metadata"]["name"]
    status, answer = calls.answer("POST", COLLECTION, body=node)
    if status != 409:
        _accepted("POST", COLLECTION, status=status, answer=answer)
        return True
    found = calls.send("GET", f"{COLLECTION}/{name}")
    owner = (found.get("spec") or {}).get("providerID", "")
    if owner != node["spec"]["providerID"]:
        raise LocalPlaneError(f"the Node {name} is that of another machine: {owner or 'it names none'}")
    _mark(calls, name=name, value=FAKE_NODE_VALUE)
    return False


def stop(api: Api, *, name: str, patience: Patience) -> None:
    """Let the heartbeats of the node *name* end; the node lifecycle controller notices after its grace period.

    Raises:
        LocalPlaneError: the API server refused or doesn't answer.
    """
    _mark(_Calls(api=api, patience=patience), name=name, value=None)


def _mark(calls: _Calls, *, name: str, value: str | None) -> None:
    """Give the Node to kwok, or take it away; a Node that is gone is fine."""
    path, body = f"{COLLECTION}/{name}", {"metadata": {"labels": {FAKE_NODE_LABEL: value}}}
    status, answer = calls.answer("PATCH", path, body=body, content_type=_MERGE)
    if status != 404:
        _accepted("PATCH", path, status=status, answer=answer)


def _signing_request(name: str, *, key: ec.EllipticCurvePrivateKey) -> Mapping[str, Any]:
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
    ]
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "node-csr-"},
        "spec": {
            "request": base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }


@dataclass(frozen=True, kw_only=True)
class _Calls:
    """Requests that wait where nobody answers or the server has trouble."""

    api: Api
    patience: Patience

    def send(self, method: str, path: str, *, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the answer; LocalPlaneError: it is a refusal."""
        status, answer = self.answer(method, path, body=body)
        _accepted(method, path, status=status, answer=answer)
        return answer

    def answer(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> tuple[int, Mapping[str, Any]]:
        """Return status and answer."""
        while True:
            try:
                status, raw = self.api.send(method, path, body=body, content_type=content_type)
            except ssl.SSLCertVerificationError as error:
                raise LocalPlaneError(f"the API server can't be trusted: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                self.patience(f"the API server does not answer: {error}")
                continue
            if status < 500 and status != 429:
                return status, _json(raw)
            self.patience(f"{method} {path} is answered {status}")


def _json(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {"message": raw.decode(errors="replace")[:200]}
    return found if isinstance(found, Mapping) else {}


def _accepted(method: str, path: str, *, status: int, answer: Mapping[str, Any]) -> None:
    if status >= 300:
        raise LocalPlaneError(f"{method} {path} is refused with {status}: {answer.get('message', '')}")
