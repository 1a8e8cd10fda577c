#!/usr/bin/python
"""Tells which credentials, region and proxies boto3 would use; nothing goes over the network."""

from __future__ import annotations

import os
import random
import secrets
import urllib.request
import uuid

import boto3
from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Tell."""
    module = AnsibleModule(argument_spec={"token_file": {"type": "str"}})
    had_session = boto3.DEFAULT_SESSION is not None
    session = boto3.session.Session()
    found = session.get_credentials()
    client = boto3.client("ec2", region_name="eu-west-1", endpoint_url="http://127.0.0.1:1")
    frozen = found.get_frozen_credentials() if found is not None else None
    module.exit_json(
        key=frozen.access_key if frozen else None,
        secret_length=len(frozen.secret_key) if frozen else None,
        session_token=frozen.token if frozen else None,
        method=found.method if found else None,
        region=session.region_name,
        had_session=had_session,
        proxies=dict(sorted(urllib.request.getproxies().items())),
        of_client=dict(client.meta.config.proxies or {}),
        names=sorted(name for name in os.environ if name.startswith("AWS_")),
        random=[random.random(), secrets.token_hex(4), str(uuid.uuid4()), str(uuid.uuid1())],  # noqa: S311 - the point
    )


if __name__ == "__main__":
    main()
