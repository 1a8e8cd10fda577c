"""Certificates that strict clients and servers accept, and keys that nobody else can read."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from runner.kube.client import load_configuration
from runner.localdev.pki import Authority, new_key_pair, write_kubeconfig, write_private
from runner.settings import KubeSettings


def handshake(*, server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Shake hands in memory and return the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    far = server.wrap_bio(to_server, to_client, server_side=True)
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert near.version() is not None
    return far


def server_context(folder: Path, *, authority: Authority) -> ssl.SSLContext:
    """Return a server that asks for a client certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


def client_context(folder: Path, *, authority: Authority) -> ssl.SSLContext:
    """Return a client as strict as Python's newer defaults, with a certificate of its own."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Give an authority with a server and a client."""
    made = Authority(tmp_path)
    made.issue("server", common_name="server", hosts=["127.0.0.1", "localhost", "kubernetes.default.svc"])
    made.issue("admin", common_name="admin", organization="system:masters")
    return made


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
def test_both_sides_verify_each_other(tmp_path: Path, authority: Authority, host: str) -> None:
    """A strict client accepts the server under each of its names, and the server the client."""
    server, client = server_context(tmp_path, authority=authority), client_context(tmp_path, authority=authority)
    far = handshake(server=server, client=client, host=host)
    subject = [pair for group in (far.getpeercert() or {})["subject"] for pair in group]
    assert subject == [("organizationName", "system:masters"), ("commonName", "admin")]


def test_another_name_is_refused(tmp_path: Path, authority: Authority) -> None:
    """A server's certificate is not accepted for a host that it was not issued for."""
    server, client = server_context(tmp_path, authority=authority), client_context(tmp_path, authority=authority)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"doesn't match|mismatch"):
        handshake(server=server, client=client, host="example.com")


def test_a_client_certificate_does_not_make_a_server(tmp_path: Path, authority: Authority) -> None:
    """A certificate that was issued without hosts cannot serve."""
    server, client = server_context(tmp_path, authority=authority), client_context(tmp_path, authority=authority)
    server.load_cert_chain(tmp_path / "admin.crt", tmp_path / "admin.key")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(server=server, client=client, host="127.0.0.1")


def test_another_authority_is_refused(tmp_path: Path, authority: Authority) -> None:
    """Certificates of one plane are worth nothing in another."""
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    server, client = server_context(tmp_path, authority=authority), client_context(tmp_path, authority=other)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server=server, client=client, host="127.0.0.1")


def test_keys_are_readable_only_by_their_owner(tmp_path: Path, authority: Authority) -> None:
    """Every private key has mode 0600."""
    new_key_pair(tmp_path / "sa.key", public=tmp_path / "sa.pub")
    keys = list(tmp_path.glob("*.key"))
    assert len(keys) == 4, authority
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}


def test_replacing_a_readable_file_makes_it_private(tmp_path: Path) -> None:
    """A private file written over one that others could read is private."""
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kubeconfig"]


async def test_the_official_client_reads_the_kubeconfig(tmp_path: Path, authority: Authority) -> None:
    """A kubeconfig has the server, the authority and the identity inlined, is private, and loads."""
    path = tmp_path / "kubeconfig"
    write_kubeconfig(
        path,
        server="https://127.0.0.1:6443",
        authority=authority.certificate,
        certificate=tmp_path / "admin.crt",
        key=tmp_path / "admin.key",
    )
    configuration = await load_configuration(KubeSettings(kubeconfig=str(path)))
    assert configuration.host == "https://127.0.0.1:6443"
    assert Path(configuration.cert_file).read_bytes() == (tmp_path / "admin.crt").read_bytes()
    assert json.loads(path.read_text())["current-context"] == "local"
    assert path.stat().st_mode & 0o777 == 0o600
