"""kopf's settings for being embedded."""

from __future__ import annotations

from itertools import islice

import kopf
import pytest

from runner.handlers.configuration import FINALIZER, TOUCHED, Endless, NoProgress, settings_for
from runner.settings import KubeSettings


def test_kopf_writes_nothing_by_itself_and_keeps_trying() -> None:
    """No Events, no kopf finalizer, no kill of the process, no rights on CRDs, no end of tries."""
    settings = settings_for(KubeSettings(request_timeout=7, connect_timeout=3))
    assert not settings.posting.enabled
    assert settings.persistence.finalizer == FINALIZER == "ansible-operator.io/handlers"
    assert settings.process.ultimate_exiting_timeout is None
    assert settings.scanning.disabled
    assert (settings.networking.request_timeout, settings.networking.connect_timeout) == (7, 3)
    assert isinstance(settings.networking.error_backoffs, Endless)
    assert not hasattr(Endless, "__len__")  # kopf would count


def test_the_delays_between_tries_grow_and_never_end() -> None:
    """They begin at a second and stay at half a minute."""
    delays = list(islice(Endless(), 100))
    assert delays[:3] == [1, 1, 2]
    assert delays == sorted(delays)
    assert set(delays[8:]) == {30}


def test_nothing_is_remembered_in_an_object() -> None:
    """Storing, purging and comparing leave the patch empty."""
    storage = settings_for(KubeSettings()).persistence
    body, patch = kopf.Body({"spec": {"a": 1}}), kopf.Patch()
    storage.diffbase_storage.store(body=body, patch=patch, essence={})
    storage.progress_storage.store(key="x", record={}, body=body, patch=patch)  # type: ignore[arg-type]  # a plain str
    storage.progress_storage.purge(key="x", body=body, patch=patch)  # type: ignore[arg-type]  # a plain str
    assert not patch
    assert storage.diffbase_storage.fetch(body=body) is None
    assert storage.diffbase_storage.build(body=body) == {}
    assert storage.progress_storage.fetch(key="x", body=body) is None  # type: ignore[arg-type]  # a plain str
    assert storage.progress_storage.clear(essence={"spec": {}}) == {"spec": {}}


@pytest.mark.parametrize(
    ("annotations", "value", "written"),
    [
        ({}, None, {}),
        ({}, "now", {"metadata": {"annotations": {TOUCHED: "now"}}}),
        ({TOUCHED: "now"}, "now", {}),
        ({TOUCHED: "now"}, None, {"metadata": {"annotations": {TOUCHED: None}}}),
    ],
)
def test_a_touch_changes_one_annotation_of_ours(
    annotations: dict[str, str], value: str | None, written: dict[str, object]
) -> None:
    """It is written where kopf wants to come back, and taken off again; where nothing changes nothing is written."""
    patch = kopf.Patch()
    NoProgress().touch(body=kopf.Body({"metadata": {"annotations": annotations}}), patch=patch, value=value)
    assert dict(patch) == written
