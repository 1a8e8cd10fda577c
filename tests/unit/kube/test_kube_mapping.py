"""Which kind the plural in a URL is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from runner.errors import Call, KubeError, NotFound, ServerError
from runner.kube.discovery import Resource
from runner.kube.mapping import Mapped, Mapper
from runner.kube.objects import GVK, Object
from runner.testing.clock import FakeClock

APPS: Object = {
    "resources": [
        {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get", "list", "watch", "create"]},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True, "verbs": ["get", "update"]},
        {"kind": "Nameless"},
    ]
}
CORE: Object = {"resources": [{"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": ["get"]}]}
DEPLOYMENTS = Mapped(
    resource=Resource(
        gvk=GVK("apps", "v1", "Deployment"), plural="deployments", namespaced=True, subresources=frozenset({"scale"})
    ),
    verbs=frozenset({"get", "list", "watch", "create"}),
)


class Answers:
    """Plays the one verb of a client that discovery needs, from a table, when it is let."""

    def __init__(self, table: Mapping[str, Object | type[KubeError]]) -> None:
        """Answer as in *table*, at once."""
        self.table = dict(table)
        self.asked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def request(self, method: str, path: str, *, call: Call) -> Object:
        """Answer, or raise what the table names; what is not in it is not served."""
        assert method == "GET"
        self.asked.append(path)
        await self.open.wait()
        answer = self.table.get(path, NotFound)
        if isinstance(answer, type):
            raise answer("as the table says", call=call, status=503)
        return answer


async def test_a_plural_is_found_with_its_verbs() -> None:
    """Kind, scope, subresources and verbs come from the group and version that the URL names."""
    mapper = Mapper(client=Answers({"/apis/apps/v1": APPS, "/api/v1": CORE}))
    assert await mapper.find("apps", "v1", plural="deployments") == DEPLOYMENTS
    namespaces = await mapper.find("", "v1", plural="namespaces")
    assert namespaces is not None
    assert not namespaces.resource.namespaced


async def test_what_is_known_is_asked_for_once() -> None:
    """A group and version costs one request for all its kinds, whether the scope is told or not."""
    client = Answers({"/apis/apps/v1": APPS})
    mapper = Mapper(client=client)
    for namespaced in (None, True, None):
        assert await mapper.find("apps", "v1", plural="deployments", namespaced=namespaced) == DEPLOYMENTS
    assert len(client.asked) == 1


@pytest.mark.parametrize("namespaced", [True, False])
async def test_a_kind_that_came_back_with_the_other_scope_is_asked_for_anew(namespaced: bool) -> None:  # noqa: FBT001 - a parameter
    """Where a URL has another scope than what is known, the kind was made anew: the answer has the new scope."""
    entry = {"name": "webs", "kind": "Web", "verbs": ["get"]}
    old: Object = {"resources": [{**entry, "namespaced": not namespaced}]}
    client, clock = Answers({"/apis/a.example/v1": old}), FakeClock()
    mapper = Mapper(client=client, clock=clock)
    before = await mapper.find("a.example", "v1", plural="webs", namespaced=not namespaced)
    client.table["/apis/a.example/v1"] = {"resources": [{**entry, "namespaced": namespaced}]}
    await clock.advance(1)
    after = await mapper.find("a.example", "v1", plural="webs", namespaced=namespaced)
    assert [found and found.resource.namespaced for found in (before, after)] == [not namespaced, namespaced]


async def test_many_at_once_cost_one_request() -> None:
    """Who comes before the question is sent shares its answer."""
    client, clock = Answers({"/apis/apps/v1": APPS}), FakeClock()
    client.open.clear()
    mapper = Mapper(client=client, clock=clock)
    many = [asyncio.create_task(mapper.find("apps", "v1", plural="deployments")) for _ in range(50)]
    await clock.settle()
    client.open.set()
    assert await asyncio.gather(*many) == [DEPLOYMENTS] * 50
    assert len(client.asked) == 1


async def test_a_missing_plural_is_asked_for_anew_once_a_second() -> None:
    """A None is never older than the call, and costs the API server no more than a request a second."""
    client, clock = Answers({}), FakeClock()
    mapper = Mapper(client=client, clock=clock)
    assert await mapper.find("apps", "v1", plural="deployments") is None
    await clock.advance(0.1)
    client.table["/apis/apps/v1"] = APPS
    again = asyncio.create_task(mapper.find("apps", "v1", plural="deployments"))
    await clock.advance(0.8)
    assert len(client.asked) == 1
    await clock.advance(0.2)
    assert await again == DEPLOYMENTS
    assert len(client.asked) == 2


async def test_a_none_may_be_old_for_who_can_live_with_that() -> None:
    """With `max_age` a miss of a moment ago is taken as it is."""
    client, clock = Answers({}), FakeClock()
    mapper = Mapper(client=client, clock=clock)
    for _ in range(5):
        assert await mapper.find("apps", "v1", plural="deployments", max_age=1.0) is None
        await clock.advance(0.1)
    assert len(client.asked) == 1


async def test_trouble_tells_and_is_not_remembered() -> None:
    """An API server that can't say is no API server that doesn't serve the kind; the next second it is asked again."""
    client, clock = Answers({"/apis/apps/v1": ServerError}), FakeClock()
    mapper = Mapper(client=client, clock=clock)
    with pytest.raises(ServerError, match=r"discover apis/apps/v1: as the table says"):
        await mapper.find("apps", "v1", plural="deployments")
    await clock.advance(2)
    client.table["/apis/apps/v1"] = APPS
    assert await mapper.find("apps", "v1", plural="deployments") == DEPLOYMENTS


async def test_those_who_wait_for_a_failing_question_fail_with_it() -> None:
    """A dead API server isn't asked by each of them in turn."""
    client, clock = Answers({"/apis/apps/v1": ServerError}), FakeClock()
    client.open.clear()
    mapper = Mapper(client=client, clock=clock)
    many = [asyncio.create_task(mapper.find("apps", "v1", plural="deployments")) for _ in range(20)]
    await clock.settle()
    client.open.set()
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    assert all(isinstance(outcome, ServerError) for outcome in outcomes)
    assert len(client.asked) == 1


async def test_a_broken_group_disturbs_no_other() -> None:
    """An aggregated API that is down, and one that hangs, cost nobody else anything."""
    client = Answers({"/apis/apps/v1": APPS, "/apis/metrics.k8s.io/v1beta1": ServerError})
    clock = FakeClock()
    mapper = Mapper(client=client, clock=clock)
    client.open.clear()
    hangs = asyncio.create_task(mapper.find("metrics.k8s.io", "v1beta1", plural="pods"))
    await clock.settle()
    others = asyncio.create_task(mapper.find("apps", "v1", plural="deployments"))
    await clock.settle()
    assert client.asked == ["/apis/metrics.k8s.io/v1beta1", "/apis/apps/v1"]
    client.open.set()
    assert await others == DEPLOYMENTS
    with pytest.raises(ServerError):
        await hangs


async def test_what_was_known_survives_a_failing_question() -> None:
    """A known kind is served while its group's API server is down."""
    client, clock = Answers({"/apis/apps/v1": APPS}), FakeClock()
    mapper = Mapper(client=client, clock=clock)
    await mapper.find("apps", "v1", plural="deployments")
    client.table["/apis/apps/v1"] = ServerError
    await clock.advance(2)
    with pytest.raises(ServerError):
        await mapper.find("apps", "v1", plural="daemonsets")
    assert await mapper.find("apps", "v1", plural="deployments") == DEPLOYMENTS


async def test_a_cancelled_question_is_asked_by_the_next() -> None:
    """A client that goes away takes no answer with it."""
    client, clock = Answers({"/apis/apps/v1": APPS}), FakeClock()
    client.open.clear()
    mapper = Mapper(client=client, clock=clock)
    first = asyncio.create_task(mapper.find("apps", "v1", plural="deployments"))
    second = asyncio.create_task(mapper.find("apps", "v1", plural="deployments"))
    await clock.settle()
    first.cancel()
    client.open.set()
    assert await second == DEPLOYMENTS


async def test_the_memory_is_bounded() -> None:
    """Clients can name any number of groups."""
    client = Answers({"/apis/apps/v1": APPS})
    mapper = Mapper(client=client)
    await mapper.find("apps", "v1", plural="deployments")
    for number in range(1000):
        await mapper.find(f"g{number}", "v1", plural="x")
    await mapper.find("apps", "v1", plural="deployments")
    assert client.asked.count("/apis/apps/v1") == 2
