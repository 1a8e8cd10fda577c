"""The benchmarks use the same operator project as the integration tests."""

from tests.integration.operator.conftest import project, start

__all__ = ["project", "start"]
