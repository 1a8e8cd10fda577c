"""What is measured, in the order of the table, and what must be reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.bench.budget import Rounds

COUNT = 20
"""Objects at once."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How many times less *warm* must need than another contestant."""

    against: str
    times: float


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the table; less is better."""

    key: str
    title: str
    unit: str = "s"
    decimals: int = 2
    wanted: Wanted | None = None
    at_most: float | None = None
    """What warm may need."""
    guarded: bool = True
    """Whether its ratios are compared with the recorded ones."""


_ONCE = Rounds(least=1, most=1)


@dataclass(frozen=True, kw_only=True)
class Section:
    """What is chosen as a whole, with its share of the time."""

    name: str
    figures: Sequence[Figure]
    share: float = 0.0
    rounds: Rounds = _ONCE


_A_THIRD = Wanted(against="cold", times=3)
_IN_TURNS = Rounds(least=7, most=15)

MEMORY = Section(
    name="memory",
    figures=(
        Figure(key="memory/start", title="start of the operator until it is ready", guarded=False),
        Figure(key="memory/idle", title="memory of all processes, idle", unit="MiB", decimals=0, at_most=250),
        Figure(key="memory/rested", title="the same after a first run", unit="MiB", decimals=0, at_most=250),
        Figure(
            key="memory/held", title="memory per running reconcile, held", unit="MiB", decimals=0, wanted=_A_THIRD
        ),
        Figure(
            key="memory/peak", title="memory per running reconcile, peak", unit="MiB", decimals=0, wanted=_A_THIRD
        ),
        Figure(key="memory/after", title="memory of all processes, idle after those runs", unit="MiB", decimals=0),
    ),
)  # fmt: skip
ONE_TASK = Section(
    name="one-task",
    share=2,
    rounds=_IN_TURNS,
    figures=(
        Figure(
            key="one-task/new", title="one-task role: created to Successful", wanted=Wanted(against="peer", times=15)
        ),
        Figure(key="one-task/edit", title="one-task role: edited to Successful"),
        Figure(key="one-task/cpu", title="one-task role: CPU of a reconcile"),
    ),
)  # fmt: skip
THREE_TASKS = Section(
    name="three-tasks",
    share=4,
    rounds=_IN_TURNS,
    figures=(
        Figure(
            key="three-tasks/new",
            title="three-task Kubernetes role: created to Successful",
            wanted=Wanted(against="peer", times=10),
        ),
        Figure(key="three-tasks/edit", title="three-task Kubernetes role: edited to Successful"),
        Figure(key="three-tasks/cpu", title="three-task Kubernetes role: CPU of a reconcile"),
    ),
)
EC2 = Section(
    name="ec2",
    share=4,
    rounds=Rounds(least=3, most=9),
    figures=(
        Figure(key="ec2/ready", title="EC2Instance role: created to Ready, as the role says"),
        Figure(key="ec2/new", title="EC2Instance role: created to Successful"),
        Figure(key="ec2/cpu", title="EC2Instance role: CPU of a reconcile"),
    ),
)
TWENTY = Section(
    name="twenty",
    share=8,
    rounds=Rounds(least=1, most=5),
    figures=tuple(
        Figure(
            key=f"twenty/{key}",
            title=f"twenty objects at once, three-task role, {title}",
            wanted=Wanted(against="peer", times=10) if times else None,
        )
        for key, title, times in (
            ("2-workers", "2 workers", True),
            ("2-cpu", "2 workers: CPU of a reconcile", False),
            ("8-workers", "8 workers", True),
            ("8-cpu", "8 workers: CPU of a reconcile", False),
        )
    ),
)
SECTIONS = (MEMORY, ONE_TASK, THREE_TASKS, EC2, TWENTY)
FIGURES = tuple(figure for section in SECTIONS for figure in section.figures)
