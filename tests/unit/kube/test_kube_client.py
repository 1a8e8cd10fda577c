"""The client: credentials that rotate, broken configurations, answers that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from runner.errors import Call, ConfigError, ConnectionFailed, Gone, NotFound, ServerError, Unauthorized
from runner.kube.client import KubeClient
from runner.settings import KubeSettings
from runner.testing.apiserver import FakeApiServer
from runner.testing.cluster import CONFIG_MAPS, SECRETS
from runner.testing.faults import HttpFaultProxy, Rule
from runner.testing.kubeconfig import write_kubeconfig

CALL = Call(verb="get", resource="secrets")


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """Give a server that knows Secrets and ConfigMaps."""
    async with FakeApiServer() as server:
        server.define(SECRETS)
        server.define(CONFIG_MAPS)
        yield server


def client_for(kubeconfig: Path, *, request_timeout: float = 30.0) -> KubeClient:
    """Build a client."""
    return KubeClient(settings=KubeSettings(kubeconfig=str(kubeconfig), request_timeout=request_timeout))


def with_token_file(server: FakeApiServer, folder: Path) -> tuple[Path, Path]:
    """Write a kubeconfig that names a token file; return both."""
    token = folder / "token"
    token.write_text("old\n", encoding="utf-8")
    return server.kubeconfig(folder / "kubeconfig", user={"tokenFile": str(token)}), token


async def test_a_rotated_token_is_read_again_on_401(server: FakeApiServer, tmp_path: Path) -> None:
    """A 401 makes the client read the token file again and repeat the request, trailing newline or not."""
    server.token = "old"
    kubeconfig, token = with_token_file(server, tmp_path)
    async with client_for(kubeconfig) as client:
        assert await client.list(SECRETS) == []
        server.token = "new"
        token.write_text("new\n", encoding="utf-8")
        assert await client.list(SECRETS) == []


async def test_credentials_are_read_again_once_a_request(server: FakeApiServer, tmp_path: Path) -> None:
    """When the new token is refused as well the request fails after two tries."""
    server.token = "right"
    kubeconfig, token = with_token_file(server, tmp_path)
    async with client_for(kubeconfig) as client:
        with pytest.raises(Unauthorized):
            await client.list(SECRETS)
        assert server.refused == 2
        token.write_text("right", encoding="utf-8")
        assert await client.list(SECRETS) == []


async def test_many_refused_requests_at_once_all_succeed(server: FakeApiServer, tmp_path: Path) -> None:
    """Requests that are refused together share the new credentials."""
    server.token = "old"
    kubeconfig, token = with_token_file(server, tmp_path)
    async with client_for(kubeconfig) as client:
        await client.list(SECRETS)
        server.token = "new"
        token.write_text("new", encoding="utf-8")
        answers = await asyncio.gather(*(client.list(SECRETS) for _ in range(20)))
        assert answers == [[]] * 20


async def test_an_open_stream_outlives_the_rotation(server: FakeApiServer, tmp_path: Path) -> None:
    """A watch that began with the old credentials is not cut when others read the new ones, again and again."""
    server.token = "0"
    kubeconfig, token = with_token_file(server, tmp_path)
    token.write_text("0", encoding="utf-8")
    timeout = aiohttp.ClientTimeout(total=60)
    watch = (("watch", "1"), ("resourceVersion", "1"))
    async with (
        client_for(kubeconfig) as client,
        client.stream("GET", "/api/v1/secrets", call=CALL, query=watch, timeout=timeout) as response,
    ):
        for turn in range(1, 5):
            server.token = str(turn)
            token.write_text(str(turn), encoding="utf-8")
            await client.list(SECRETS)
        await client.create(SECRETS, namespace="ns", body={"metadata": {"name": "a"}})
        assert b'"ADDED"' in await response.content.readline()


async def test_a_file_in_the_middle_of_its_rotation_is_no_mistake_of_a_person(
    server: FakeApiServer, tmp_path: Path
) -> None:
    """A configuration that is broken only when it is read again leaves the request unauthorized, to be retried."""
    server.token = "old"
    kubeconfig, token = with_token_file(server, tmp_path)
    async with client_for(kubeconfig) as client:
        await client.list(SECRETS)
        server.token = "new"
        good = kubeconfig.read_text(encoding="utf-8")
        kubeconfig.write_text("", encoding="utf-8")
        with pytest.raises(Unauthorized, match="cannot use the Kubernetes configuration"):
            await client.list(SECRETS)
        kubeconfig.write_text(good, encoding="utf-8")
        token.write_text("new", encoding="utf-8")
        assert await client.list(SECRETS) == []


async def test_more_than_a_hundred_watches_are_open_at_once(server: FakeApiServer, tmp_path: Path) -> None:
    """Open watches do not use up the connections of other requests."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with client_for(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        streams = [
            client.stream("GET", "/api/v1/secrets", call=CALL, query=(("watch", "1"),), timeout=timeout)
            for _ in range(105)
        ]
        for stream in streams:
            await stream.__aenter__()
        assert await client.list(SECRETS) == []
        for stream in streams:
            await stream.__aexit__(None, None, None)


async def test_a_list_is_complete_however_many_pages_it_has(server: FakeApiServer, tmp_path: Path) -> None:
    """Pages are put together, and each item gets its kind."""
    async with client_for(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        for number in range(1001):
            server.put(SECRETS, namespace="ns", body={"metadata": {"name": f"s{number}"}})
        found = await client.list(SECRETS, namespace="ns")
        assert len(found) == 1001
        assert all((obj["apiVersion"], obj["kind"]) == ("v1", "Secret") for obj in found)


async def test_an_expired_continue_token_costs_one_full_list(server: FakeApiServer, tmp_path: Path) -> None:
    """When the server forgot how to continue, all is read in one answer; a 410 of that one is an error."""
    for number in range(501):
        server.put(SECRETS, namespace="ns", body={"metadata": {"name": f"s{number}"}})
    async with HttpFaultProxy(upstream_kubeconfig=server.kubeconfig(tmp_path / "upstream")) as proxy:
        proxy.rule(Rule(path="continue=", status=410))
        async with client_for(proxy.kubeconfig(tmp_path / "proxy")) as client:
            assert len(await client.list(SECRETS)) == 501
            proxy.rule(Rule(path="", status=410))
            with pytest.raises(Gone):
                await client.list(SECRETS)


async def test_an_answer_that_is_no_json_is_a_server_error(server: FakeApiServer, tmp_path: Path) -> None:
    """A success without JSON comes from something that is no API server."""
    async with HttpFaultProxy(upstream_kubeconfig=server.kubeconfig(tmp_path / "upstream")) as proxy:
        proxy.rule(Rule(path="", status=200, body=b"<html>"))
        async with client_for(proxy.kubeconfig(tmp_path / "proxy")) as client:
            with pytest.raises(ServerError, match="no JSON"):
                await client.get(SECRETS, namespace="ns", name="a")


async def test_a_refused_connection_is_a_connection_failure(server: FakeApiServer, tmp_path: Path) -> None:
    """A closed port is no answer at all, and the error says which call it was."""
    async with FakeApiServer() as other:
        kubeconfig = other.kubeconfig(tmp_path / "kubeconfig")
    async with client_for(kubeconfig) as client:
        with pytest.raises(ConnectionFailed, match="get secrets a in namespace ns"):
            await client.get(SECRETS, namespace="ns", name="a")


async def test_a_lost_answer_is_a_connection_failure(server: FakeApiServer, tmp_path: Path) -> None:
    """A connection that closes before the answer is told as such, and nothing is sent twice."""
    async with HttpFaultProxy(upstream_kubeconfig=server.kubeconfig(tmp_path / "upstream")) as proxy:
        lost = proxy.rule(Rule(method="POST", lose=True, execute=True))
        async with client_for(proxy.kubeconfig(tmp_path / "proxy")) as client:
            with pytest.raises(ConnectionFailed):
                await client.create(SECRETS, namespace="ns", body={"metadata": {"name": "a"}})
            assert lost.hits == 1
            assert (await client.get(SECRETS, namespace="ns", name="a"))["metadata"]["name"] == "a"


async def test_a_slow_answer_is_a_connection_failure(server: FakeApiServer, tmp_path: Path) -> None:
    """A request ends after the settings' time-out."""
    async with HttpFaultProxy(upstream_kubeconfig=server.kubeconfig(tmp_path / "upstream")) as proxy:
        proxy.rule(Rule(hold=True))
        async with client_for(proxy.kubeconfig(tmp_path / "proxy"), request_timeout=0.2) as client:
            with pytest.raises(ConnectionFailed):
                await client.list(SECRETS)


async def test_a_closed_client_opens_again(server: FakeApiServer, tmp_path: Path) -> None:
    """`close` gives up the connections; a later request works."""
    async with client_for(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        await client.list(SECRETS)
        await client.close()
        with pytest.raises(NotFound):
            await client.get(SECRETS, namespace="ns", name="a")


async def test_a_server_on_this_machine_is_reached_without_the_proxy_of_the_environment(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxy variables do not apply to loopback addresses, as with the Go client."""
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with client_for(server.kubeconfig(tmp_path / "kubeconfig")) as client:
        assert await client.list(SECRETS) == []


async def test_connecting_reads_the_configuration_without_a_request(server: FakeApiServer, tmp_path: Path) -> None:
    """`connect` checks the configuration only: an API server that is away is no reason to fail."""
    async with (
        HttpFaultProxy(upstream_kubeconfig=server.kubeconfig(tmp_path / "upstream")) as proxy,
        client_for(proxy.kubeconfig(tmp_path / "proxy")) as client,
    ):
        await client.connect()
        assert proxy.requests == []
        assert await client.list(SECRETS) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("- a\n- b\n", id="list"),
        pytest.param("just text", id="text"),
        pytest.param("a: [1", id="no YAML"),
        pytest.param("{}", id="no contexts"),
        pytest.param("current-context: x\ncontexts: []\nclusters: []\n", id="unknown context"),
        pytest.param("current-context: x\ncontexts: 7\nclusters: []\n", id="contexts no list"),
    ],
)
async def test_a_broken_kubeconfig_is_a_config_error(tmp_path: Path, content: str) -> None:
    """Whatever is wrong with the file, the error names it and the remedy."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(content, encoding="utf-8")
    async with client_for(kubeconfig) as client:
        with pytest.raises(ConfigError, match=r"configuration .*/kubeconfig: .*set KUBECONFIG"):
            await client.connect()
        with pytest.raises(ConfigError, match=r"set KUBECONFIG"):
            await client.list(SECRETS)


async def test_a_missing_kubeconfig_is_a_config_error(tmp_path: Path) -> None:
    """A path that leads nowhere is named."""
    async with client_for(tmp_path / "nowhere") as client:
        with pytest.raises(ConfigError, match="nowhere"):
            await client.list(SECRETS)


async def test_a_broken_client_certificate_is_a_config_error(tmp_path: Path) -> None:
    """Certificates that cannot be read are a mistake in the configuration, not a failed connection."""
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("garbage", encoding="utf-8")
    user = {"client-certificate": str(garbage), "client-key": str(garbage)}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server="https://127.0.0.1:1", user=user)
    async with client_for(kubeconfig) as client:
        with pytest.raises(ConfigError, match="kubeconfig"):
            await client.list(SECRETS)


async def test_a_list_of_kubeconfigs_is_merged(server: FakeApiServer, tmp_path: Path) -> None:
    """As in $KUBECONFIG several files are separated by colons, and missing ones are passed over."""
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    settings = KubeSettings(kubeconfig=f"{tmp_path / 'nowhere'}:{kubeconfig}")
    async with KubeClient(settings=settings) as client:
        assert await client.list(SECRETS) == []
