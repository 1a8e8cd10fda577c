"""Installs the patches once per process and hands out moto's WSGI application."""

# ruff: noqa: SLF001 - moto's internals are what this package changes
from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from moto.ec2.models import amis
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, run_wsgi_app

from runner.localdev.ec2.moto_patches import buckets, changes, launches, states, visibility, volumes
from runner.localdev.ec2.moto_patches.current import Current
from runner.localdev.ec2.simulation import Simulation

WARM_REGION = "us-east-1"
IMAGES = Path(__file__).parent.with_name("images.json")
REQUEST_HANDLER = MotoRequestHandler
"""Keeps S3's metadata headers, which werkzeug's own handler would change."""


def install(simulation: Simulation) -> Any:
    """Make moto obey *simulation* and return moto's WSGI application with fresh state."""
    first = Current.simulation is None
    Current.simulation = simulation
    if first:
        amis.AmiBackend._load_amis = _load_images
        for part in (states, visibility, launches, changes, volumes, buckets):
            part.patch()
    reset()
    return DomainDispatcherApplication(create_backend_app)


def reset() -> None:
    """Forget everything that was created in moto."""
    moto_api_backend.reset()


def warm_up(application: Any, *, region: str = WARM_REGION) -> None:
    """Make a first call of EC2 in *region*, which loads the API's model, so that the caller's first one is quick."""
    scope = f"AWS4-HMAC-SHA256 Credential=warm/20260101/{region}/ec2/aws4_request, SignedHeaders=host, Signature=0"
    builder = EnvironBuilder(
        method="POST",
        base_url=f"http://ec2.{region}.amazonaws.com/",
        headers=Headers({"Authorization": scope}),
        data={"Action": "DescribeInstances", "Version": "2016-11-15"},
    )
    try:
        list(run_wsgi_app(application, builder.get_environ(), buffered=True)[0])
    finally:
        builder.close()


def _load_images(backend: Any) -> None:
    # moto's own catalogue costs 0.4 s per region at the first call, and its ids change with moto.
    for entry in json.loads(IMAGES.read_text(encoding="utf-8")):
        entry["creation_date"] = datetime.fromisoformat(entry["creation_date"])
        backend.amis[entry["ami_id"]] = amis.Ami(backend, owner_alias="amazon", **entry)
