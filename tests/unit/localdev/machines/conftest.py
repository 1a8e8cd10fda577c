"""Certificates for tests of simulated machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.localdev.components import CLOUD
from runner.localdev.pki import Authority


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Give the certificate of a cloud controller; its key and the authority's `ca.crt` lie beside it."""
    return Authority(tmp_path).issue(CLOUD, common_name="cloud")
