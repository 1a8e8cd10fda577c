"""The shipped fixtures' own promises, on a pytest inside pytest."""

from __future__ import annotations

import pytest

from runner.testing.cluster import crd, wait_until


def run(pytester: pytest.Pytester, body: str) -> pytest.RunResult:
    """Run a test file in a process of its own."""
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest('pytest_plugins = ["runner.testing.fixtures"]')
    pytester.makepyfile(f"import asyncio\n{body}")
    return pytester.runpytest_subprocess()


def test_a_test_that_leaves_a_task_fails(pytester: pytest.Pytester) -> None:
    """A task that still runs after the test is an error that shows the task."""
    result = run(
        pytester,
        """
async def forgotten():
    await asyncio.Event().wait()

async def test_it():
    asyncio.get_running_loop().keep = asyncio.create_task(forgotten())
""",
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the test left tasks running*forgotten*"])


def test_a_test_that_cleans_up_passes(pytester: pytest.Pytester) -> None:
    """A task that was cancelled, a synchronous test and a fixture's own tasks are no reproach."""
    result = run(
        pytester,
        """
import pytest

@pytest.fixture
async def background():
    task = asyncio.create_task(asyncio.Event().wait())
    yield task
    task.cancel()

async def test_cancelled(background):
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    task.cancel()

def test_synchronous():
    pass
""",
    )
    result.assert_outcomes(passed=2)


async def test_wait_until_returns_the_first_true_value() -> None:
    """A wait gives back what its condition found."""
    values = iter([None, "", "found"])

    async def condition() -> str | None:
        return next(values)

    assert await wait_until(condition, what="a value") == "found"


async def test_wait_until_says_what_it_waited_for() -> None:
    """A wait in vain names the condition and the last value."""

    async def condition() -> list[str]:
        return []

    with pytest.raises(TimeoutError, match=r"in vain for the moon; the last value was \[\]"):
        await wait_until(condition, what="the moon", limit=0)


def test_a_crd_serves_every_version_and_stores_the_first() -> None:
    """The helper's definition has the status subresource and one stored version."""
    body = crd("Widget", versions=("v1", "v1beta1"))
    versions = body["spec"]["versions"]
    assert [(entry["name"], entry["served"], entry["storage"]) for entry in versions] == [
        ("v1", True, True),
        ("v1beta1", True, False),
    ]
    assert all(entry["subresources"] == {"status": {}} for entry in versions)
    assert body["metadata"]["name"] == "widgets.test.example.com"
