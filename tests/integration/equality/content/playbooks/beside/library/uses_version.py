#!/usr/bin/python
"""Tells which of two utilities of one name it got."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.version import LooseVersion


def main() -> None:
    """Tell."""
    module = AnsibleModule(argument_spec={})
    module.exit_json(hidden=getattr(LooseVersion, "hides", False))


if __name__ == "__main__":
    main()
