"""What to launch next: instance types in order of preference, in the pool's subnets, but not where AWS had none. Pure.

A type that failed in a subnet is left alone for some minutes, longer each time; after that one machine at a time tries
it, until one is launched. What failed is kept by the caller in the pool's status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.aws_operator.core.plugins.module_utils.durations import backoff
from ansible_collections.aws_operator.core.plugins.module_utils.pool_members import TERMINATING, Member
from ansible_collections.aws_operator.core.plugins.module_utils.pools import instance_types
from ansible_collections.aws_operator.core.plugins.module_utils.timestamps import parse, render

Offering = tuple[str, str]
"""Instance type and subnet; the subnet is empty for a default one."""
FIRST_PAUSE = 300.0
LONGEST_PAUSE = 1800.0


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """One offering that AWS had no machine for."""

    offering: Offering
    failures: int
    since: datetime
    until: datetime

    def entry(self) -> dict[str, Any]:
        """Return it as it's kept in the status."""
        return {
            "instanceType": self.offering[0],
            "subnetId": self.offering[1],
            "failures": self.failures,
            "since": render(self.since),
            "until": render(self.until),
        }


def offerings_of(spec: Mapping[str, Any]) -> list[Offering]:
    """Return every type in every subnet, the preferred type first."""
    return [(kind, subnet) for kind in instance_types(spec) for subnet in spec.get("subnetIds") or [""]]


def shortages_of(
    status: Mapping[str, Any], members: Sequence[Member], *, now: datetime, first: float = FIRST_PAUSE
) -> dict[Offering, Shortage]:
    """Return what AWS lacks: what was kept, without what has been launched since, with what failed just now."""
    kept = {item.offering: item for item in map(_kept, status.get("shortages") or []) if item}
    for member in members:
        known = kept.get(member.offering)
        if known and member.instance_id and (parse(member.launched) or known.since) > known.since:
            del kept[member.offering]
    # Objects of one batch fail together and count once: only one that was made after the last failure counts anew.
    for member in [member for member in members if member.lacks_capacity and member.phase != TERMINATING]:
        known = kept.get(member.offering)
        if known is None or (parse(member.created) or known.since) > known.since:
            kept[member.offering] = _failed(member.offering, known.failures + 1 if known else 1, now=now, first=first)
    return kept


def choose(
    number: int,
    *,
    offerings: Sequence[Offering],
    shortages: Mapping[Offering, Shortage],
    members: Iterable[Member],
    now: datetime,
) -> list[Offering]:
    """Return up to *number* offerings to launch, balanced over the subnets; fewer where AWS lacks them."""
    staying = [member for member in members if member.phase != TERMINATING and not member.lacks_capacity]
    spread = Counter(member.offering[1] for member in staying)
    trying = Counter(member.offering for member in staying if not member.instance_id)
    chosen: list[Offering] = []
    for _ in range(number):
        open_ones = [item for item in offerings if _is_open(item, shortages, trying=trying, now=now)]
        if not open_ones:
            break
        preferred = [item for item in open_ones if item[0] == open_ones[0][0]]
        best = min(preferred, key=lambda item: spread[item[1]])
        chosen.append(best)
        spread[best[1]] += 1
        trying[best] += 1
    return chosen


def shown(offering: Offering) -> str:
    """Return it for a person."""
    return f"{offering[0]} in {offering[1]}" if offering[1] else offering[0]


def _is_open(
    offering: Offering, shortages: Mapping[Offering, Shortage], *, trying: Counter[Offering], now: datetime
) -> bool:
    short = shortages.get(offering)
    return short is None or (now >= short.until and trying[offering] == 0)


def _failed(offering: Offering, failures: int, *, now: datetime, first: float) -> Shortage:
    pause = timedelta(seconds=backoff(failures, first=first, most=max(first, LONGEST_PAUSE)))
    return Shortage(offering=offering, failures=failures, since=now, until=now + pause)


def _kept(entry: Mapping[str, Any]) -> Shortage | None:
    """Read an entry of the status; one that can't be read is forgotten: the offering is just tried again."""
    since, until = parse(entry.get("since")), parse(entry.get("until"))
    if since is None or until is None:
        return None
    offering = (str(entry.get("instanceType") or ""), str(entry.get("subnetId") or ""))
    return Shortage(offering=offering, failures=int(entry.get("failures") or 1), since=since, until=until)
