"""Client tokens, without a cloud."""

from __future__ import annotations

import pytest

from runner.localdev.ec2.aws_request import Call
from runner.localdev.ec2.client_tokens import ClientTokens, InstanceTerminated, ParameterMismatch, fingerprint


class _Launches:
    """Counts launches; each is its number."""

    def __init__(self) -> None:
        self.tokens: ClientTokens[int] = ClientTokens()
        self.count = 0
        self.terminated: set[int] = set()

    def launch(self, key: str, print_: str = "same") -> int:
        return self.tokens.launch(key, print_, execute=self._execute, is_terminated=self.terminated.__contains__)

    def _execute(self) -> int:
        self.count += 1
        return self.count


def _call(**params: str) -> Call:
    return Call(service="ec2", region="us-east-1", action="RunInstances", params=params)


def test_one_launch_per_key() -> None:
    """The same key gives the same launch; another key another one."""
    launches = _Launches()
    assert [launches.launch("a"), launches.launch("a"), launches.launch("b")] == [1, 1, 2]


def test_other_parameters_are_refused() -> None:
    """A key with other parameters launches nothing."""
    launches = _Launches()
    launches.launch("a")
    with pytest.raises(ParameterMismatch):
        launches.launch("a", "other")
    assert launches.count == 1


def test_a_terminated_launch_is_refused() -> None:
    """A key whose launch is terminated launches nothing; wrong parameters are told first."""
    launches = _Launches()
    launches.terminated.add(launches.launch("a"))
    with pytest.raises(InstanceTerminated):
        launches.launch("a")
    with pytest.raises(ParameterMismatch):
        launches.launch("a", "other")
    assert launches.count == 1


def test_a_bound_key_launches_the_same_only() -> None:
    """A key that was tied to parameters is good for these, and for no others."""
    launches = _Launches()
    launches.tokens.bind("a", "same")
    with pytest.raises(ParameterMismatch):
        launches.launch("a", "other")
    with pytest.raises(ParameterMismatch):
        launches.tokens.bind("a", "other")
    assert launches.launch("a") == 1


def test_a_failed_launch_leaves_the_key_free() -> None:
    """A launch that raised is tried again, with other parameters too."""
    launches = _Launches()

    def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        launches.tokens.launch("a", "same", execute=fail, is_terminated=lambda _: False)
    assert launches.launch("a", "other") == 1


def test_what_counts_as_other_parameters() -> None:
    """Token and dry run don't count, everything else does, user data included."""
    base = fingerprint(_call(ImageId="i", UserData="u"))
    assert fingerprint(_call(UserData="u", ImageId="i", ClientToken="t", DryRun="false", Action="A")) == base
    assert fingerprint(_call(ImageId="i", UserData="v")) != base
    assert fingerprint(_call(ImageId="i")) != base
