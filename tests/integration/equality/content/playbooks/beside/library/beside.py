#!/usr/bin/python
"""A module beside a playbook, with a utility beside it."""

from __future__ import annotations

import sys

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.beside_words import WORD


def main() -> None:
    """Do what the arguments ask for."""
    spec = {
        "word": {"type": "str", "required": True},
        "hidden": {"type": "str", "no_log": True},
        "old": {"type": "str", "removed_in_version": "9.0.0", "removed_from_collection": "equality.tools"},
        "noise": {"type": "bool", "default": False},
        "fail": {"type": "bool", "default": False},
        "facts": {"type": "bool", "default": False},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=False)
    if module.params["noise"]:
        module.warn("a warning, ünïcode")
        module.deprecate("a deprecation", version="9.0.0", collection_name="equality.tools")
        module.log("for the journal")
        module.debug("for nobody")
        sys.stderr.write("on standard error\n")
    if module.params["fail"]:
        module.fail_json(msg="it failed", rc=7, word=module.params["word"])
    facts = {"fact_of_beside": [1, {"two": "ü"}]} if module.params["facts"] else {}
    module.exit_json(
        changed=True,
        word=f"{WORD} {module.params['word']}",
        hidden=module.params["hidden"],
        ansible_facts=facts,
        diff={"before": "a\n", "after": "b\n"},
        invocation_of="beside",
    )


if __name__ == "__main__":
    main()
