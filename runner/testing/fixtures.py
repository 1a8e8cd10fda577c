"""pytest fixtures: a real control plane for the session, a client and a namespace per test.

Load them with `pytest_plugins = ["runner.testing.fixtures"]`. $TEST_PLANE_DIR names the folder of a running plane
(`ansible-operator dev up --dir ...`) to use instead of starting one; it is left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from runner.errors import NotFound
from runner.kube.client import KubeClient
from runner.localdev import assets
from runner.localdev.plane import ControlPlane, PlaneOptions
from runner.settings import KubeSettings, environment
from runner.testing.cluster import NAMESPACES
from runner.testing.machines import ClusterToJoin, machines_of

_SETTLE_TURNS = 5


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane's programs before the first test that needs them, outside its time-out."""
    if session.config.option.collectonly or environment().get("TEST_PLANE_DIR"):
        return
    if any("plane" in getattr(item, "fixturenames", ()) for item in session.items):
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        assets.find(environment(), report=terminal.write_line if terminal else print)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Give a running control plane with the EC2 emulator."""
    named = environment().get("TEST_PLANE_DIR", "")
    if named:
        running = ControlPlane.load(Path(named))
        assert running.running, f"TEST_PLANE_DIR names {named}, where no complete plane runs: unset it or start one"
        yield running
        return
    started = ControlPlane.start(options=PlaneOptions(ec2=True))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def ec2(plane: ControlPlane) -> str:
    """Give the URL of the session's EC2 emulator."""
    assert plane.ec2_endpoint, "the plane that TEST_PLANE_DIR names has no EC2 emulator: start it with --ec2"
    return plane.ec2_endpoint


@pytest.fixture(scope="session")
def joining_instances(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterToJoin]:
    """Let instances of the emulator boot by their user data, and give what they join the session's plane with."""
    with machines_of(plane, folder=tmp_path_factory.mktemp("machines")) as cluster:
        yield cluster


@pytest.fixture
async def kube(plane: ControlPlane) -> AsyncIterator[KubeClient]:
    """Give an administrator's client."""
    async with KubeClient(settings=KubeSettings(kubeconfig=str(plane.kubeconfig))) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    """Give the name of a new namespace; it is deleted afterwards, and nobody waits for that."""
    name = f"test-{secrets.token_hex(4)}"
    await kube.create(NAMESPACES, body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    with contextlib.suppress(NotFound):  # the test deleted it
        await kube.delete(NAMESPACES, name=name)


@pytest.fixture(autouse=True)
def no_task_left_behind(request: pytest.FixtureRequest) -> None:
    """Fail an asynchronous test that leaves tasks running."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("_tasks_at_the_end")


@pytest.fixture
async def _tasks_at_the_end() -> AsyncIterator[None]:
    """Look at the event loop after the test and its other fixtures."""
    yield
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)  # what was cancelled ends
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"the test left tasks running; await or cancel them: {left}"
