"""Which executor a run gets, and what is said where an object asks for one that it can't have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.execution.chosen import ANNOTATION, ChosenExecutor, WarmContent, warm_content
from runner.execution.executor import HasRemark, KnowsReadiness, Outcome, RunRequest
from runner.kube.objects import GVK
from runner.logs import Logger, RecordingSink
from runner.testing.executor import ScriptedExecutor, failed, run_request, succeeded
from runner.watches.model import Content, Finalizer, Watch

PROBE = GVK("bugs.example.com", "v1", "Probe")
SUSPICION = "This end may be the fault of the warm executor"
IGNORED = f"The annotation {ANNOTATION} can only choose cold, and is ignored"


def asking(annotation: str | None, *, key: str = "", uid: str = "u1") -> RunRequest:
    """Return a request of an object with *annotation*, of a watch with *key*."""
    request = run_request(watch=Watch(gvk=PROBE, content=Content(), executor=key))
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    return replace(request, obj={**request.obj, "metadata": {"name": "probe", "uid": uid, "annotations": annotations}})


class Bench:
    """Both executors behind the choice."""

    def __init__(self, *, default: str, ends: tuple[Outcome, ...] = ()) -> None:
        """Let warm runs end with *ends*, one after the other."""
        self.cold, self.warm = ScriptedExecutor(outcomes=ends), ScriptedExecutor(outcomes=ends)
        self.sink = RecordingSink()
        self.executor = ChosenExecutor(cold=self.cold, warm=self.warm, default=default, logger=Logger(sink=self.sink))

    @property
    def used(self) -> list[str]:
        """Return who ran something."""
        return [name for name, one in (("cold", self.cold), ("warm", self.warm)) if one.requests]

    @property
    def sentences(self) -> list[str]:
        """Return what was logged."""
        return [str(record["msg"]) for record in self.sink.records]


@pytest.mark.parametrize(
    ("flag", "key", "annotation", "used"),
    [
        ("warm", "", None, "warm"), ("cold", "", None, "cold"),
        ("warm", "cold", None, "cold"), ("cold", "warm", None, "warm"),
        ("warm", "", "cold", "cold"), ("cold", "warm", "cold", "cold"),
        ("cold", "", "warm", "cold"), ("warm", "cold", "warm", "cold"),
        ("warm", "", "Cold", "warm"), ("warm", "", "", "warm"),
    ],
)  # fmt: skip
async def test_the_key_wins_over_the_flag_and_the_annotation_can_only_choose_cold(
    flag: str, key: str, annotation: str | None, used: str
) -> None:
    """Who writes objects can leave the warm way, but lead no role onto it that its author keeps off."""
    bench = Bench(default=flag)

    outcome = await bench.executor.run(asking(annotation, key=key))

    assert outcome.success
    assert bench.used == [used]
    wrong = annotation not in {None, "cold"}
    assert bench.sentences == ([IGNORED] if wrong else [])


async def test_an_ignored_annotation_is_told_once_for_each_object_and_value() -> None:
    """Periodic runs don't repeat it; a value that nobody typed is cut."""
    bench = Bench(default="warm")
    for value in ("hot", "hot", "warm", "warm", "x" * 1000):
        await bench.executor.run(asking(value))
    await bench.executor.run(asking("x" * 1000, uid="u2"))

    assert [record["value"] for record in bench.sink.records] == ["hot", "warm", f"{'x' * 64}...", f"{'x' * 64}..."]
    record = bench.sink.records[0]
    assert (record["level"], record["name"], record["gvk"]) == ("warn", "probe", str(PROBE))


@pytest.mark.parametrize(
    ("end", "odd"),
    [
        (succeeded(), False),
        (failed("asked to fail"), False),
        (failed("MODULE FAILURE: no JSON object"), True),
        (failed("Module result deserialization failed.: No start of json char found"), True),
        (replace(failed("it broke off", with_recap=False), rc=None), True),
        (replace(failed("it broke off", with_recap=False), rc=250), True),
        (replace(failed("no such option", with_recap=False), rc=5), False),
        (replace(failed("syntax error", with_recap=False), rc=4), False),
    ],
)  # fmt: skip
async def test_an_end_that_the_warm_executor_may_have_caused_is_told_apart(end: Outcome, *, odd: bool) -> None:
    """Failures that Ansible itself reports are the role's; what no cold run ends with deserves a line more."""
    warm = replace(end, warm=True)
    bench = Bench(default="warm", ends=(warm,))

    assert await bench.executor.run(asking(None)) is warm

    assert [sentence.startswith(SUSPICION) for sentence in bench.sentences] == [True] * odd


async def test_an_odd_end_of_a_run_that_the_warm_executor_sent_cold_is_not_its_fault() -> None:
    """While there is no fork server its runs are cold ones, and nothing else would mend them."""
    bench = Bench(default="warm", ends=(replace(failed("it broke off", with_recap=False), rc=None),))

    await bench.executor.run(asking(None))

    assert bench.sentences == []


async def test_the_same_end_of_a_cold_run_is_nobodys_fault() -> None:
    """No suspicion falls on what did not run."""
    bench = Bench(default="cold", ends=(replace(failed("it broke off", with_recap=False), rc=None),))

    await bench.executor.run(asking(None))

    assert bench.sentences == []


class Ready(ScriptedExecutor):
    """An executor that knows what is missing."""

    async def ready(self) -> str | None:
        """Return it."""
        return "the fork server starts"


class Source:
    """Something to start and stop."""

    def __init__(self) -> None:
        """Begin stopped."""
        self.calls: list[str] = []

    async def start(self) -> None:
        """Note it."""
        self.calls.append("start")

    async def stop(self) -> None:
        """Note it."""
        self.calls.append("stop")

    async def settled(self) -> None:
        """Note it."""
        self.calls.append("settled")

    def why_cold(self) -> str | None:
        """Return a reason."""
        return "the executor is cold because it snows"


async def test_readiness_start_and_stop_reach_the_warm_side() -> None:
    """The probe asks through the choice, and the operator starts what warm runs come from."""
    source = Source()
    executor = ChosenExecutor(cold=ScriptedExecutor(), warm=Ready(), source=source, default="warm")

    assert isinstance(executor, KnowsReadiness)
    assert await executor.ready() == "the fork server starts"
    await executor.start()
    await executor.settled()
    await executor.stop()
    assert source.calls == ["start", "settled", "stop"]
    assert isinstance(executor, HasRemark)
    assert executor.remark() == "the executor is cold because it snows"


async def test_without_a_warm_side_everything_is_cold() -> None:
    """Nothing is started, and the cold executor tells the readiness."""
    cold = Ready()
    executor = ChosenExecutor(cold=cold, default="cold")

    await executor.start()
    await executor.run(asking("warm"))
    await executor.stop()

    assert len(cold.requests) == 1
    assert await executor.ready() == "the fork server starts"


def test_warm_content_is_what_watches_run_warm() -> None:
    """Roles and playbooks of watches and their finalizers, each once; those that are cold by their key are left out."""
    a, b, c, play = (Path(f"/roles/{name}") for name in ("a", "b", "c", "play.yml"))
    watches = [
        Watch(gvk=PROBE, content=Content(role=a), finalizer=Finalizer(name="x/y", content=Content(playbook=play))),
        Watch(gvk=PROBE, content=Content(role=b), executor="cold"),
        Watch(gvk=PROBE, content=Content(role=c), executor="warm"),
        Watch(gvk=PROBE, content=Content(role=a)),
    ]

    assert warm_content(watches, default="warm") == WarmContent(roles=(a, c), playbooks=(play,))
    assert warm_content(watches, default="cold") == WarmContent(roles=(c,))
    assert warm_content(watches[1:2], default="warm") is None
    assert warm_content([], default="warm") is None
