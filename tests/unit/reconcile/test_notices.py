"""What is told about an object only once."""

from __future__ import annotations

from runner.kube.objects import GVK
from runner.reconcile.notices import Notices
from runner.workqueue.request import Request

WEB = Request(GVK("bugs.example.com", "v1", "Probe"), "default", "web")


def test_a_state_is_new_once() -> None:
    """The same wish of the same object is no news; a new wish, or a new object of the name, is."""
    notices = Notices()
    seen = [notices.is_new(WEB, uid=uid, wish=wish) for uid, wish in [("u1", 1), ("u1", 1), ("u1", 2), ("u2", 2)]]
    assert seen == [True, False, True, True]


def test_what_is_forgotten_is_new_again() -> None:
    """An object that had nothing to be told for a while is told anew."""
    notices = Notices()
    notices.is_new(WEB, uid="u1", wish=1)
    notices.forget(WEB)
    notices.forget(WEB)
    assert notices.is_new(WEB, uid="u1", wish=1)
