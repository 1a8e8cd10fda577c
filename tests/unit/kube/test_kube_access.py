"""The operator's credentials for raw HTTP: what a kubeconfig becomes, and when it is read again."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import ConfigError
from runner.kube.access import AccessSource
from runner.settings import KubeSettings
from runner.testing.kubeconfig import write_kubeconfig


def source_for(
    folder: Path, *, server: str = "https://api.example:6443", user: dict[str, Any] | None = None, **cluster: Any
) -> AccessSource:
    """Build a source from a kubeconfig whose cluster has the keys of *cluster*, `-` written as `_`."""
    path = write_kubeconfig(folder / "kubeconfig", server=server, user=user)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["clusters"][0]["cluster"] |= {key.replace("_", "-"): value for key, value in cluster.items()}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return AccessSource(settings=KubeSettings(kubeconfig=str(path), connect_timeout=7))


async def test_the_path_of_the_server_is_kept(tmp_path: Path) -> None:
    """The server's path stands before every target, and the target's percent-encoding is untouched."""
    access = await source_for(tmp_path, server="https://rancher.example/k8s/clusters/c-1/").current()
    url = access.url("/api/v1/a%2fb/../c?x=%20+y")
    assert str(url) == "https://rancher.example/k8s/clusters/c-1/api/v1/a%2fb/../c?x=%20+y"


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({"token": "abc\n"}, {"Authorization": "Bearer abc"}),
        ({"username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}),
        ({}, {}),
    ],
)
async def test_the_user_becomes_a_header(tmp_path: Path, user: dict[str, str], headers: dict[str, str]) -> None:
    """A token or a password is the Authorization; a user with neither has none."""
    assert (await source_for(tmp_path, user=user).current()).headers == headers


async def test_secrets_are_not_in_its_text(tmp_path: Path) -> None:
    """The text of an access, as a log would have it, has no token and no password of a proxy."""
    access = await source_for(tmp_path, user={"token": "abc"}, proxy_url="http://u:pw@proxy.example:3128").current()
    assert "abc" not in repr(access)
    assert "pw" not in repr(access)


async def test_the_server_is_verified_unless_the_kubeconfig_says_no(tmp_path: Path) -> None:
    """HTTPS is verified by default, not with insecure-skip-tls-verify, and plain HTTP has no TLS at all."""
    verified = (await source_for(tmp_path).current()).ssl
    blind = (await source_for(tmp_path, insecure_skip_tls_verify=True).current()).ssl
    assert verified is not None
    assert verified.verify_mode is ssl.CERT_REQUIRED
    assert blind is not None
    assert blind.verify_mode is ssl.CERT_NONE
    assert (await source_for(tmp_path, server="http://api.example").current()).ssl is None


async def test_the_name_in_the_certificate_may_differ(tmp_path: Path) -> None:
    """`tls-server-name` is the name that the certificate is checked for."""
    assert (await source_for(tmp_path, tls_server_name="inner.example").current()).server_hostname == "inner.example"
    assert (await source_for(tmp_path).current()).server_hostname is None


@pytest.mark.parametrize(
    ("server", "cluster", "proxy"),
    [
        ("https://api.example", {}, "http://environment.example:1"),
        ("https://api.example", {"proxy_url": "http://named.example:2"}, "http://named.example:2"),
        ("https://near.example", {}, None),
        ("http://api.example", {}, None),
        ("https://127.0.0.1:6443", {}, None),
        ("https://localhost:6443", {}, None),
        ("https://127.0.0.1:6443", {"proxy_url": "http://named.example:2"}, "http://named.example:2"),
    ],
)
async def test_the_proxy_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, cluster: dict[str, Any], proxy: str | None
) -> None:
    """`proxy-url` counts, else the environment's proxy, which is not for this machine nor for what NO_PROXY names."""
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://environment.example:1")
    monkeypatch.setenv("NO_PROXY", "near.example")
    access = await source_for(tmp_path, server=server, **cluster).current()
    assert (str(access.proxy).rstrip("/") if access.proxy else None) == proxy


async def test_a_refusal_reads_the_token_again_once_for_all(tmp_path: Path) -> None:
    """Those who were refused with the same access share one new one; who comes later gets it, too."""
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")
    source = source_for(tmp_path, user={"tokenFile": str(token)})
    old = await source.current()
    assert await source.current() is old
    token.write_text("new", encoding="utf-8")
    fresh = await asyncio.gather(*(source.refreshed(old) for _ in range(10)))
    assert {id(access) for access in fresh} == {id(fresh[0])}
    assert fresh[0].headers == {"Authorization": "Bearer new"}
    token.write_text("newer", encoding="utf-8")
    assert await source.refreshed(old) is fresh[0]
    assert await source.current() is fresh[0]


async def test_a_file_in_the_middle_of_its_rotation_is_an_error_of_that_moment(tmp_path: Path) -> None:
    """Where nothing can be read after a refusal the error says so, and the next one tries again."""
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")
    source = source_for(tmp_path, user={"tokenFile": str(token)})
    old = await source.current()
    token.unlink()
    with pytest.raises(ConfigError, match="token"):
        await source.refreshed(old)
    assert await source.current() is old
    token.write_text("new", encoding="utf-8")
    assert (await source.refreshed(old)).headers == {"Authorization": "Bearer new"}


async def test_a_broken_certificate_names_the_keys(tmp_path: Path) -> None:
    """A certificate authority that is none is an error that names the keys to look at."""
    authority = tmp_path / "ca.crt"
    authority.write_text("none", encoding="utf-8")
    with pytest.raises(ConfigError, match="check certificate-authority, client-certificate and client-key"):
        await source_for(tmp_path, certificate_authority=str(authority)).current()


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    """A kubeconfig that is not there is named with the remedy, and it may come later."""
    path = tmp_path / "later"
    source = AccessSource(settings=KubeSettings(kubeconfig=str(path)))
    with pytest.raises(ConfigError, match="later: there is no such file; set KUBECONFIG"):
        await source.current()
    write_kubeconfig(path, server="http://127.0.0.1:1")
    assert (await source.current()).base.port == 1
