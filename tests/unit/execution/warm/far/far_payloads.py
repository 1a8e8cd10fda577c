"""Payloads as small as templates take them: a zip with a module and a utility, and what the module's process does."""

from __future__ import annotations

import base64
import io
import zipfile

UNPACKS = """
import base64, os, sys, tempfile
folder = tempfile.mkdtemp(prefix="ansible_probe_payload_")
path = os.path.join(folder, "ansible_probe_payload.zip")
with open(path, "wb") as file:
    file.write(base64.b64decode(zip_data))
sys.path.insert(0, path)
"""
"""As Ansible's wrapper does."""
PARENT = "import os; print(os.getppid())"


def payload(
    utility: str = "VALUE = 1\n",
    *,
    then: str = PARENT,
    module: str = "from ansible.module_utils.basic import VALUE\n",
    extra: str = "",
) -> str:
    """Return a payload: its zip has *utility* as `basic`, *extra* beside it, and *module*; its process does *then*."""
    sources = {
        "ansible/__init__.py": "",
        "ansible/module_utils/__init__.py": "",
        "ansible/module_utils/basic.py": utility,
        "ansible/module_utils/extra.py": extra,
        "ansible/modules/__init__.py": "",
        "ansible/modules/probe.py": module,
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, source in sources.items():
            file.writestr(zipfile.ZipInfo(name), source)
    return f"zip_data='{base64.b64encode(content.getvalue()).decode()}'\n{then}\n"
