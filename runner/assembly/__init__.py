"""The composition root: settings become parts, the parts become one running operator.

- `parts` puts together what one watch needs (`Controller`) from what all share (`Shared`);
- `executors` puts together what runs Ansible;
- `services` builds the servers beside them: probes, metrics;
- `operator` starts and drains everything in its order;
- `serve` is what `ansible-operator run` calls: settings in, exit code out.
"""

from runner.assembly.executors import Surroundings, build_executor, cold_executor, play_executor
from runner.assembly.operator import Operator, build_operator
from runner.assembly.parts import Controller, Shared, build_controller
from runner.assembly.serve import serve

__all__ = [
    "Controller",
    "Operator",
    "Shared",
    "Surroundings",
    "build_controller",
    "build_executor",
    "build_operator",
    "cold_executor",
    "play_executor",
    "serve",
]
