#!/usr/bin/python
"""A module of a role."""

from __future__ import annotations

from ansible.module_utils import role_words
from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Answer."""
    module = AnsibleModule(argument_spec={"number": {"type": "int"}})
    module.exit_json(word=role_words.WORD, number=module.params["number"])


if __name__ == "__main__":
    main()
