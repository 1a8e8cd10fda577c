#!/usr/bin/python
"""Says hello with the words of the collection."""

from __future__ import annotations

DOCUMENTATION = """
module: hello
short_description: Says hello
description: [With other words.]
options:
  name:
    description: Whom to greet.
    type: str
author: the project
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402 - documentation comes first in a module
from ansible_collections.equality.tools.plugins.module_utils import words  # noqa: E402


def main() -> None:
    """Greet."""
    module = AnsibleModule(argument_spec={"name": {"type": "str"}}, supports_check_mode=True)
    module.exit_json(
        word=words.greet("from beside " + module.params["name"]),
        utility=words.__file__.rpartition("/")[2],
    )


if __name__ == "__main__":
    main()
