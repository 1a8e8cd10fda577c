"""Which node of a pool goes first. Pure.

NodePool takes nodes in this order, and the Autoscaler lowers a target only as far as this order hits nodes that aren't
needed: so it never has to name one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.aws_operator.core.plugins.module_utils.places import Place
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse

_JUDGED = ("cpu", "memory")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A node, or a machine that is none yet, that may go."""

    name: str
    is_ready: bool = True
    created: str = ""
    load: float = 0.0
    """Greatest share of its room that pods hold which would have to move, between 0 and 1."""
    keeps: str = ""
    """Why it should stay where another one would do, empty for no reason."""


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the newest unready first, then the least loaded; those with a reason to stay last."""

    def rank(candidate: Candidate) -> tuple[bool, bool, float, float, str]:
        created = parse(candidate.created)
        newest = -created.timestamp() if created else float("inf")
        keeps = bool(candidate.keeps) and candidate.is_ready
        return (candidate.is_ready, keeps, candidate.load if candidate.is_ready else 0.0, newest, candidate.name)

    return sorted(candidates, key=rank)


def candidate_of(place: Place) -> Candidate:
    """Return a node with its pods as one that may go."""
    keeps = place.keeps or next((guest.keeps for guest in place.guests if guest.keeps), "")
    return Candidate(name=place.name, is_ready=place.is_ready, created=place.created, load=load_of(place), keeps=keeps)


def load_of(place: Place) -> float:
    """Return the greatest share of the node's cores or memory that movable pods ask for."""
    shares = [
        sum(guest.requests.get(name, 0) for guest in place.guests if guest.moves) / place.offers[name]
        for name in _JUDGED
        if place.offers.get(name, 0) > 0
    ]
    return max(shares, default=0.0)
