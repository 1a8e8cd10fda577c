"""What a machine learns about itself from EC2's metadata service."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.localdev.ec2.records import InstanceRecord

_PATHS = (
    (re.compile(r"placement/availability-zone\b(?!-id)"), "zone"),
    (re.compile(r"placement/region\b"), "region"),
    (re.compile(r"\binstance-id\b"), "instance_id"),
    (re.compile(r"\binstance-type\b"), "instance_type"),
    (re.compile(r"\blocal-ipv4\b"), "address"),
    (re.compile(r"\b(local-hostname|hostname)\b"), "hostname"),
)
"""What a command that a script substitutes must have in it, to be a question that we can answer."""


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The answers; of an instance that is gone only the id is left."""

    instance_id: str
    instance_type: str = ""
    zone: str = ""
    region: str = ""
    address: str = ""

    @classmethod
    def of(cls, record: InstanceRecord) -> Metadata:
        """Return what the service answers on the instance of *record*."""
        return cls(
            instance_id=record.id,
            instance_type=record.type,
            zone=record.zone,
            region=record.region,
            address=record.private_ip,
        )

    @property
    def hostname(self) -> str:
        """Return the private DNS name, which is also the name of the host and of its Node."""
        domain = "ec2.internal" if self.region == "us-east-1" else f"{self.region}.compute.internal"
        return f"ip-{self.address.replace('.', '-')}.{domain}"

    @property
    def provider_id(self) -> str:
        """Return what the Node's providerID has to be."""
        return f"aws:///{self.zone}/{self.instance_id}"

    def answer(self, command: str) -> str:
        """Return what a script's *command* prints that asks the service; empty where it asks for something else."""
        return next((str(getattr(self, name)) for path, name in _PATHS if path.search(command)), "")
