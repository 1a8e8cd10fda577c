"""The informer's contract against the in-memory API server."""

from __future__ import annotations

from runner.testing.contracts import InformerContract


class TestInformerOnFakeServer(InformerContract):
    """All of the contract."""
