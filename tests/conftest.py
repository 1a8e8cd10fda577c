"""The fixtures of the whole suite: see `runner.testing.fixtures` (fixtures) and `runner.testing.cluster` (helpers)."""

pytest_plugins = ["runner.testing.fixtures", "pytester"]
