"""What the log says about watches.yaml at the start: its fields, their order, and where each number comes from."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runner.logs import Logger, RecordingSink
from runner.settings import ExecutionSettings, ProxySettings, Settings
from runner.watches.model import LabelRequirement
from runner.watches.startup import log_watches, selector_text
from tests.unit.watches.conftest import Project

HEADER = ["level", "ts", "logger", "msg"]
FIELDS = [
    "gvk",
    "playbook",
    "role",
    "workers",
    "workersFrom",
    "verbosity",
    "verbosityFrom",
    "reconcilePeriod",
    "reconcilePeriodFrom",
    "finalizer",
    "manageStatus",
    "selector",
    "namespaces",
    "markUnsafe",
    "executor",
    "executorFrom",
]
NOT_INJECTED = "--inject-owner-ref=false"
WEB = "- {group: test.io, version: v1, kind: Web, role: web, markUnsafe: true}\n"


def logged(
    project: Project, text: str, *, settings: Settings | None = None, environ: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the records about *text*."""
    settings = settings or Settings(max_concurrent_reconciles=4)
    loaded = project.load(text, environ=environ, settings=settings)
    sink = RecordingSink()
    log_watches(loaded, settings=settings, logger=Logger("cmd", sink=sink))
    return [dict(record) for record in sink.records]


def test_each_watch_is_told_with_all_its_fields_in_their_order(project: Project) -> None:
    """Without flags and variables the defaults are named as such."""
    (record,) = logged(project, WEB)

    assert list(record) == [*HEADER, *FIELDS]
    assert (record["level"], record["logger"], record["msg"]) == ("info", "watches", "Watch")
    assert [record[name] for name in FIELDS] == [
        "test.io/v1, Kind=Web",
        "",
        str(project.folder / "roles/web"),
        4,
        "number of CPUs",
        2,
        "default",
        "10h0m0s",
        "default",
        "",
        True,
        "",
        ["*"],
        True,
        "warm",
        "default",
    ]


def test_a_full_entry_is_told_with_what_it_sets(project: Project) -> None:
    """Playbook, finalizer, status, selector, period; the line has the same fields."""
    text = """
- group: test.io
  version: v1
  kind: Web
  playbook: play.yml
  reconcilePeriod: 0s
  manageStatus: false
  markUnsafe: true
  selector: {matchLabels: {a: b}}
  finalizer: {name: test.io/bye, vars: {state: absent}}
"""
    settings = Settings(max_concurrent_reconciles=4, namespaces=("one", "two"))
    (record,) = logged(project, text, settings=settings)

    assert list(record) == [*HEADER, *FIELDS]
    assert (record["playbook"], record["role"]) == (str(project.folder / "play.yml"), "")
    assert (record["reconcilePeriod"], record["reconcilePeriodFrom"]) == ("0s", "watches.yaml")
    assert (record["finalizer"], record["manageStatus"], record["selector"]) == ("test.io/bye", False, "a=b")
    assert record["namespaces"] == ["one", "two"]


def test_what_an_entry_says_of_dependents_is_told_where_it_is_not_the_default(project: Project) -> None:
    """Behind the other fields: which are watched, which status counts, and which kinds are left out."""
    text = """
- group: test.io
  version: v1
  kind: Web
  role: web
  markUnsafe: true
  watchDependentResources: false
  watchClusterScopedResources: true
  watchDependentStatus:
  - {group: apps, version: v1, kind: Deployment, fields: [status.replicas, "status.conditions[type=Available].status"]}
  - {version: v1, kind: Pod, fields: [status.phase]}
  blacklist: [{version: v1, kind: Secret}]
"""
    (record,) = logged(project, text)

    assert list(record)[: len(HEADER) + len(FIELDS)] == [*HEADER, *FIELDS]
    assert {name: record[name] for name in list(record)[len(HEADER) + len(FIELDS) :]} == {
        "watchDependentResources": False,
        "watchClusterScopedResources": True,
        "watchDependentStatus": [
            "apps/v1, Kind=Deployment: status.replicas, status.conditions[type=Available].status",
            "/v1, Kind=Pod: status.phase",
        ],
        "blacklist": ["/v1, Kind=Secret"],
    }


def test_a_blacklisted_kind_that_matches_nothing_is_warned_of(project: Project) -> None:
    """Without a version or a kind an entry matches nothing, as on the peer: the operator starts, and says so."""
    items = "[{version: v1, kind: Secret}, {kind: ConfigMap}, {version: v1}, {}]"
    *notes, record = logged(project, WEB.replace("}", f", blacklist: {items}}}"))

    assert [(note["level"], note["msg"]) for note in notes] == [("warn", "A note on the watches file")] * 3
    assert [note["note"] for note in notes] == [
        "line 1: the entry of blacklist (/, Kind=ConfigMap) matches nothing; add its version",
        "line 1: the entry of blacklist (/v1, Kind=) matches nothing; add its kind",
        "line 1: the entry of blacklist (/, Kind=) matches nothing; add its version and kind",
    ]
    assert len(record["blacklist"]) == 4


def test_a_flag_is_named_where_it_decides(project: Project) -> None:
    """Given on the command line, also with the default's value."""
    settings = Settings(
        max_concurrent_reconciles=3,
        ansible_verbosity=2,
        reconcile_period=timedelta(minutes=1),
        given_flags=frozenset({"max-concurrent-reconciles", "ansible-verbosity", "reconcile-period"}),
    )
    (record,) = logged(project, WEB, settings=settings)

    assert (record["workers"], record["workersFrom"]) == (3, "--max-concurrent-reconciles")
    assert (record["verbosity"], record["verbosityFrom"]) == (2, "--ansible-verbosity")
    assert (record["reconcilePeriod"], record["reconcilePeriodFrom"]) == ("1m0s", "--reconcile-period")


def test_a_variable_is_named_where_it_decides_and_the_old_one_is_deprecated(project: Project) -> None:
    """The note on the old name comes first; the line says which variable counts."""
    environ = {"WORKER_WEB_TEST_IO": "5", "ANSIBLE_VERBOSITY_WEB_TEST_IO": "0"}
    note, record = logged(project, WEB, environ=environ)

    new = "MAX_CONCURRENT_RECONCILES_WEB_TEST_IO"
    assert note["level"] == "warn"
    assert note["note"] == f"Environment variable WORKER_WEB_TEST_IO is deprecated, use {new} instead"
    assert (record["workers"], record["workersFrom"]) == (5, "WORKER_WEB_TEST_IO")
    assert (record["verbosity"], record["verbosityFrom"]) == (0, "ANSIBLE_VERBOSITY_WEB_TEST_IO")


def test_each_line_tells_the_executor_and_who_chose_it(project: Project) -> None:
    """A watch without one of its own goes by the flag."""
    plain, own = logged(
        project, f"{WEB}{WEB.replace('Web', 'Shop').replace('markUnsafe', 'executor: cold, markUnsafe')}"
    )

    assert (plain["executor"], plain["executorFrom"]) == ("warm", "default")
    assert (own["executor"], own["executorFrom"]) == ("cold", "watches.yaml")
    settings = Settings(execution=ExecutionSettings(executor="cold"), given_flags=frozenset({"executor"}))
    (flagged,) = logged(project, WEB, settings=settings)
    assert (flagged["executor"], flagged["executorFrom"]) == ("cold", "--executor")


def test_specs_that_are_templates_are_warned_of(project: Project) -> None:
    """One warning for each watch without `markUnsafe: true`, after all the watches."""
    text = f"{WEB}- {{group: test.io, version: v1, kind: Shop, role: web}}\n"
    first, second, warning = logged(project, text)

    assert [first["markUnsafe"], second["markUnsafe"]] == [True, False]
    assert (warning["level"], warning["gvk"]) == ("warn", "test.io/v1, Kind=Shop")
    assert "who may write such an object can run code" in warning["msg"]


def test_an_operator_that_injects_nothing_says_so_once(project: Project) -> None:
    """With --inject-owner-ref=false there is one warning, however many watches ask for their dependents or a status."""
    off = Settings(proxy=ProxySettings(inject_owner_references=False))
    second = WEB.replace("Web", "Shop")
    without = WEB.replace("role: web", "role: web, watchDependentResources: false")
    entry = "{group: apps, version: v1, kind: Deployment, fields: [status.replicas]}"
    status = without.replace("false", f"false, watchDependentStatus: [{entry}]")
    for text in (WEB + second, status):
        told = [record for record in logged(project, text, settings=off) if NOT_INJECTED in record["msg"]]
        assert [record["level"] for record in told] == ["warn"]
        assert "watchDependentStatus" in told[0]["msg"]
    for records in (logged(project, WEB), logged(project, without, settings=off)):
        assert not any(NOT_INJECTED in record["msg"] for record in records)


def test_a_file_without_watches_is_warned_of(project: Project) -> None:
    """An operator that starts and does nothing says so."""
    (record,) = logged(project, "[]")
    assert (record["level"], record["file"]) == ("warn", "watches.yaml")
    assert "names no kind" in record["msg"]


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (LabelRequirement(key="a", operator="In", values=("b",)), "a=b"),
        (LabelRequirement(key="a", operator="In", values=("b", "c")), "a in (b,c)"),
        (LabelRequirement(key="a", operator="NotIn", values=("b",)), "a notin (b)"),
        (LabelRequirement(key="a", operator="Exists"), "a"),
        (LabelRequirement(key="a", operator="DoesNotExist"), "!a"),
    ],
)
def test_a_selector_is_told_as_kubectl_takes_it(requirement: LabelRequirement, text: str) -> None:
    """A person can paste it behind `kubectl get --selector`."""
    assert selector_text([requirement]) == text
    assert selector_text([requirement, requirement]) == f"{text},{text}"
