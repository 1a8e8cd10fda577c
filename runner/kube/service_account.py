"""Where a pod finds the service account that it runs as."""

from __future__ import annotations

from pathlib import Path

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Holds `token`, `ca.crt` and `namespace`."""
