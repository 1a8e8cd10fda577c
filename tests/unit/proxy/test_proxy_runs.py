"""Who speaks: the secret of a live run, and every way in which credentials stand for none."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable

import pytest

from runner.kube.objects import GVK
from runner.proxy.exchange import Owner
from runner.proxy.kubeconfig import username_of
from runner.proxy.runs import LEADERSHIP_LOST, CallerRefused, Runs

WEB = Owner(gvk=GVK("apps.example.com", "v1", "Web"), namespace="shop", name="front", uid="8d7f0f0c")
OTHER = Owner(gvk=GVK("apps.example.com", "v1", "Web"), namespace="shop", name="back", uid="11111111")


def basic(username: str, password: str) -> str:
    """Return the header Authorization of these credentials."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def of_run(owner: Owner, secret: str) -> str:
    """Return the header that a run of *owner* sends."""
    return basic(username_of(owner), secret)


def refused(runs: Runs, header: str) -> str:
    """Return the sentence with which *header* is refused."""
    with pytest.raises(CallerRefused) as caught:
        runs.authenticate(header)
    return str(caught.value)


def test_a_live_run_is_known_by_its_secret() -> None:
    """The caller is the run with the owner that it was opened for."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as secret:
        caller = runs.authenticate(of_run(WEB, secret))
    assert caller is not None
    assert (caller.owner, caller.run) == (WEB, "7")


def test_each_run_has_a_secret_of_its_own() -> None:
    """Runs of several objects at once are told apart, and no secret comes twice."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as first, runs.open(owner=OTHER, run="8") as second:
        assert first != second
        assert len(first) >= 43  # 32 random bytes
        callers = [runs.authenticate(of_run(WEB, first)), runs.authenticate(of_run(OTHER, second))]
    assert [caller and caller.run for caller in callers] == ["7", "8"]


@pytest.mark.parametrize("header", [None, "Bearer abc", "bearer  eyJ.a-b_c/d+e~f==", " Bearer x "])
def test_who_claims_no_owner_is_nobody(header: str | None) -> None:
    """Requests without credentials or with one token, as of a webhook beside the operator, speak for nobody."""
    assert Runs().authenticate(header) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.replace("Basic ", "Basic\t"),
        lambda header: header.replace("Basic ", "Basic"),
        lambda header: header.replace("Basic ", "Digest "),
        lambda header: f"{header}, {header}",
        lambda header: f"{header}, Bearer abc",
        lambda header: f"Bearer abc, {header}",
        lambda _: "",
        lambda _: "  ",
        lambda _: "Bearer",
        lambda _: "Bearer abc, ",
        lambda _: "Bearer a b",
        lambda _: "Bearer\tabc",
        lambda _: "Negotiate abc",
    ],
)
def test_what_may_claim_anything_is_refused(change: Callable[[str], str]) -> None:
    """An Authorization that is neither one token nor well-formed Basic is never served unowned."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as secret:
        assert "no valid Basic authentication" in refused(runs, change(of_run(WEB, secret)))


@pytest.mark.parametrize("password", ["unused", "", "x" * 43, "ä:é"])
def test_an_identity_without_a_live_secret_is_refused(password: str) -> None:
    """Whoever knows an object's identity alone, as with the peer, can't speak for it."""
    runs = Runs()
    with runs.open(owner=WEB, run="7"):
        sentence = refused(runs, of_run(WEB, password))
    assert sentence.startswith("the password belongs to no live run of this operator")


def test_a_run_that_ended_is_told_so() -> None:
    """A process that outlives its run learns that the run is over, and which."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as secret:
        pass
    assert refused(runs, of_run(WEB, secret)).startswith("the run 7 is over")


def test_a_run_that_failed_ends_too() -> None:
    """An exception in the run's block kills its secret."""
    runs = Runs()
    with contextlib.suppress(KeyError), runs.open(owner=WEB, run="7") as secret:
        raise KeyError
    assert refused(runs, of_run(WEB, secret)).startswith("the run 7 is over")


def test_a_newer_run_of_the_object_supersedes() -> None:
    """Of two runs for one UID only the newer one speaks, and it goes on when the older one ends."""
    runs = Runs()
    with contextlib.ExitStack() as older:
        first = older.enter_context(runs.open(owner=WEB, run="7"))
        with runs.open(owner=WEB, run="8") as second:
            assert refused(runs, of_run(WEB, first)).startswith("the run 7 was superseded")
            older.close()
            assert refused(runs, of_run(WEB, first)).startswith("the run 7 was superseded")
            assert runs.authenticate(of_run(WEB, second)) is not None


def test_an_object_that_was_created_anew_is_another_one() -> None:
    """A run for the same name and another UID supersedes nothing."""
    runs = Runs()
    again = Owner(gvk=WEB.gvk, namespace=WEB.namespace, name=WEB.name, uid="another")
    with runs.open(owner=WEB, run="7") as first, runs.open(owner=again, run="8"):
        assert runs.authenticate(of_run(WEB, first)) is not None


def test_lost_leadership_ends_all_runs() -> None:
    """Every run is refused with that reason, those that are a step behind the news and open later as well."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as first:
        runs.close_all(LEADERSHIP_LOST)
        assert refused(runs, of_run(WEB, first)) == LEADERSHIP_LOST
        with runs.open(owner=OTHER, run="8") as second:
            assert refused(runs, of_run(OTHER, second)) == LEADERSHIP_LOST
    assert refused(runs, of_run(WEB, first)) == LEADERSHIP_LOST


def test_another_owner_than_the_run_s_is_refused() -> None:
    """A run can't make objects in the name of another object."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as secret:
        sentence = refused(runs, of_run(OTHER, secret))
    assert sentence.startswith("the user name names another owner than the one that the run 7 is for")


@pytest.mark.parametrize("username", ["", "admin", "é", "e30=", base64.b64encode(b'{"kind": {}}').decode()])
def test_a_user_name_that_names_no_owner_is_refused(username: str) -> None:
    """A live secret alone isn't enough: nobody is taken for a run with a name that was made up."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as secret:
        assert refused(runs, basic(username, secret)).startswith("the user name names no owner")


@pytest.mark.parametrize("credentials", ["", "%%%", base64.b64encode(b"nocolon").decode(), "/w=="])
def test_basic_authentication_that_is_none_is_refused(credentials: str) -> None:
    """Broken credentials are never taken for no credentials."""
    assert "no valid Basic authentication" in refused(Runs(), f"Basic {credentials}")


def test_the_scheme_s_case_does_not_matter() -> None:
    """`basic` is `Basic`, as HTTP says."""
    runs = Runs()
    with runs.open(owner=WEB, run="7") as secret:
        assert runs.authenticate(of_run(WEB, secret).replace("Basic", "basic ")) is not None


def test_only_so_many_ends_are_remembered() -> None:
    """An operator that runs for months doesn't collect secrets; a forgotten one is an unknown one."""
    runs = Runs(remembered=2)
    secrets = []
    for number in range(3):
        with runs.open(owner=WEB, run=str(number)) as secret:
            secrets.append(secret)
    assert "no live run" in refused(runs, of_run(WEB, secrets[0]))
    assert refused(runs, of_run(WEB, secrets[1])).startswith("the run 1 is over")
