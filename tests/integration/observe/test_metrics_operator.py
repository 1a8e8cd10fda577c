"""What `/metrics` of a running operator holds after successes, failures and deletions, on a real API server."""

from __future__ import annotations

from datetime import datetime

from runner.kube.client import KubeClient
from runner.kube.objects import GVK
from runner.testing.cluster import crd, install_crd, wait_until
from runner.testing.executor import ScriptedExecutor, failed
from runner.watches.durations import PERIOD_ANNOTATION
from runner.watches.model import Content, LabelRequirement, Watch
from tests.integration.observe.conftest import WIDGETS, RunScraped, Samples, Scraped, Widgets, sample

GVK_LABEL = "observe.example.com/v1, Kind=Widget"
LABEL = "widget-v1-controller"


async def _until(scraped: Scraped, series: str, expected: float | None, /, **labels: str) -> Samples:
    """Scrape until a series has a value; return that page."""

    async def matches() -> Samples | None:
        page = await scraped.samples()
        return page if sample(page, series, **labels) == expected else None

    found = await wait_until(matches, what=f"{series} {labels} {expected}")
    assert found is not None
    return found


async def test_runs_and_reconciles_are_counted(widgets: Widgets, run_scraped: RunScraped) -> None:
    """After a failure, its retry and a success the page has the peer's series of results, times, queue and requests."""
    watch = Watch(gvk=WIDGETS, content=Content(), max_concurrent_reconciles=3)
    executor = ScriptedExecutor(outcomes=[failed("no")], seconds=0.02)
    async with run_scraped([watch], executor=executor) as scraped:
        await widgets.create("one")
        page = await _until(scraped, "controller_runtime_reconcile_total", 1, controller=LABEL, result="requeue_after")
        text = await scraped.text()
    runs = [
        sample(page, name, GVK=GVK_LABEL, result=result)
        for name in ("ansible_operator_reconcile_result", "ansible_operator_reconcile_results_total")
        for result in ("succeeded", "failed")
    ]
    assert runs == [1, 1, 1, 1]
    assert sample(page, "ansible_operator_reconciles_count", GVK=GVK_LABEL) == 2
    assert (sample(page, "ansible_operator_reconciles_sum", GVK=GVK_LABEL) or 0) >= 0.04
    of_controller = {
        name: sample(page, f"controller_runtime_{name}", controller=LABEL)
        for name in ("max_concurrent_reconciles", "reconcile_errors_total", "reconcile_panics_total")
    }
    assert of_controller == {"max_concurrent_reconciles": 3, "reconcile_errors_total": 1, "reconcile_panics_total": 0}
    assert sample(page, "controller_runtime_reconcile_total", controller=LABEL, result="error") == 1
    assert sample(page, "workqueue_retries_total", controller=LABEL, name=LABEL) == 1
    assert (sample(page, "workqueue_adds_total", controller=LABEL, name=LABEL) or 0) >= 2
    requests = [dict(labels) for name, labels in page if name == "rest_client_requests_total"]
    assert {"GET", "PUT"} <= {request["method"] for request in requests}
    hosts = {request["host"] for request in requests}
    assert len(hosts) == 1
    assert "127.0.0.1:" in hosts.pop()
    assert "# TYPE ansible_operator_reconcile_result gauge\n" in text


async def test_a_result_is_counted_where_the_status_is_not_ours(widgets: Widgets, run_scraped: RunScraped) -> None:
    """With manageStatus=false, where the peer counts nothing, runs are counted as everywhere."""
    watch = Watch(gvk=WIDGETS, content=Content(), manage_status=False)
    async with run_scraped([watch], executor=ScriptedExecutor()) as scraped:
        await widgets.create("one")
        await _until(scraped, "ansible_operator_reconcile_result", 1, GVK=GVK_LABEL, result="succeeded")


async def test_a_failure_without_a_run_is_counted(widgets: Widgets, run_scraped: RunScraped) -> None:
    """Each reconcile that refuses a broken period annotation is one failed result, as with the peer."""
    executor = ScriptedExecutor()
    async with run_scraped([Watch(gvk=WIDGETS, content=Content())], executor=executor) as scraped:
        await widgets.create("one", annotations={PERIOD_ANNOTATION: "1d"})
        page = await _until(scraped, "controller_runtime_reconcile_errors_total", 2, controller=LABEL)
    assert executor.requests == []
    for series in ("ansible_operator_reconcile_result", "ansible_operator_reconcile_results_total"):
        assert sample(page, series, GVK=GVK_LABEL, result="failed") == 2
    assert sample(page, "ansible_operator_reconciles_count", GVK=GVK_LABEL) is None


async def test_objects_appear_and_go(widgets: Widgets, run_scraped: RunScraped) -> None:
    """`resource_created_at_seconds` has the objects that the selector takes in, from creation to deletion."""
    selector = (LabelRequirement(key="tier", operator="Exists"),)
    watch = Watch(gvk=WIDGETS, content=Content(), selector=selector)

    def labels(name: str) -> dict[str, str]:
        gvk = {"group": WIDGETS.group, "kind": WIDGETS.kind, "version": WIDGETS.version}
        return {**gvk, "name": name, "namespace": widgets.namespace}

    async with run_scraped([watch], executor=ScriptedExecutor()) as scraped:
        await widgets.create("other")
        one = await widgets.create("one", labels={"tier": "gold"})
        created = datetime.fromisoformat(one["metadata"]["creationTimestamp"]).timestamp()
        page = await _until(scraped, "resource_created_at_seconds", created, **labels("one"))
        assert sample(page, "resource_created_at_seconds", **labels("other")) is None
        await widgets.delete("one")
        await _until(scraped, "resource_created_at_seconds", None, **labels("one"))

        two = await widgets.create("two", labels={"tier": "gold"})
        created = datetime.fromisoformat(two["metadata"]["creationTimestamp"]).timestamp()
        await _until(scraped, "resource_created_at_seconds", created, **labels("two"))
        await widgets.patch("two", {"metadata": {"labels": {"tier": None}}})
        await _until(scraped, "resource_created_at_seconds", None, **labels("two"))


async def test_a_missing_kind_shows(kube: KubeClient, run_scraped: RunScraped, namespace: str) -> None:
    """A kind whose CRD isn't there is `missing` on the page until it is, and what its informer does is counted."""
    gvk = GVK("observe.example.com", "v1", f"Late{namespace.removeprefix('test-')}")
    where = {"GVK": str(gvk), "namespace": namespace, "source": "primary"}
    async with run_scraped([Watch(gvk=gvk, content=Content())], executor=ScriptedExecutor()) as scraped:
        page = await _until(scraped, "ansible_operator_watch_state", 1, **where, state="missing")
        assert sample(page, "ansible_operator_watch_state", **where, state="synced") == 0
        assert (sample(page, "ansible_operator_informer_errors_total", **where) or 0) > 0
        await install_crd(kube, crd(gvk.kind, group=gvk.group))
        page = await _until(scraped, "ansible_operator_watch_state", 1, **where, state="synced")
        assert sample(page, "ansible_operator_watch_state", **where, state="missing") == 0
        assert sample(page, "ansible_operator_informer_lists_total", **where) == 1


async def test_one_kind_in_two_groups_has_two_sets_of_series(
    kube: KubeClient, widgets: Widgets, run_scraped: RunScraped
) -> None:
    """Watches that differ only by the group count apart, and each has one set of series (W3)."""
    other = GVK("observe2.example.com", "v1", "Widget")
    await install_crd(kube, crd(other.kind, group=other.group))
    watches = [Watch(gvk=gvk, content=Content()) for gvk in (WIDGETS, other)]
    async with run_scraped(watches, executor=ScriptedExecutor()) as scraped:
        await widgets.create("one")
        page = await _until(scraped, "ansible_operator_reconcile_result", 1, GVK=GVK_LABEL, result="succeeded")
    ours, theirs = "widget-v1-observe.example.com-controller", "widget-v1-observe2.example.com-controller"
    assert (sample(page, "workqueue_adds_total", controller=ours, name=ours) or 0) > 0
    assert sample(page, "workqueue_adds_total", controller=theirs, name=theirs) == 0
    assert sample(page, "ansible_operator_reconcile_result", GVK=str(other), result="succeeded") is None


async def test_metrics_are_served_without_a_watch(run_scraped: RunScraped) -> None:
    """An empty watches file has the metrics of the process."""
    async with run_scraped([], executor=ScriptedExecutor()) as scraped:
        assert "ansible_operator_build_info" in await scraped.text()
