"""Which `Simulation` moto obeys: moto's state is global to the process, therefore so is this."""

from __future__ import annotations

from runner.localdev.ec2.simulation import Simulation


class Current:
    """The simulation of this process; patches read it at each call, because they are put in only once."""

    simulation: Simulation | None = None


def simulation() -> Simulation:
    """Return the simulation that `install` was given."""
    if Current.simulation is None:
        raise RuntimeError("moto_patches.install comes first")
    return Current.simulation
