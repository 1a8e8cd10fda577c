"""The composition root: settings become parts, the parts become one running operator.

- `parts` puts together what one watch needs (`Controller`) from what all share (`Shared`);
- `services` builds the servers beside them: probes, metrics;
- `operator` starts and drains everything in its order;
- `serve` is what `ansible-operator run` calls: settings in, exit code out.
"""

from runner.assembly.operator import Operator, build_operator
from runner.assembly.parts import Controller, Shared, build_controller, cold_executor
from runner.assembly.serve import serve

__all__ = ["Controller", "Operator", "Shared", "build_controller", "build_operator", "cold_executor", "serve"]
