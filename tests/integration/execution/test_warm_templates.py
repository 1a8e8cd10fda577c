"""Modules forked from a template, which has imported what their payload imports: the results can't be told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.environments.interpreters import CORES, interpreter_of
from tests.integration.execution.test_warm_modules import CALLBACK, HEAD, Results, _played

MODULE = """
module = AnsibleModule(argument_spec={"how": {}})
how = module.params["how"]
from ansible.module_utils import basic
from ansible.module_utils.common import warnings as kept, parameters
if how == "parent":
    module.exit_json(parent=os.getppid(), name=open(f"/proc/{os.getppid()}/comm").read().strip())
if how == "crash":
    basic.AnsibleModule(argument_spec=7)
if how == "crash within":
    try:
        parameters.set_fallbacks(7, 7)
    except Exception:
        module.fail_json(msg="no", exception=format_exc())
if how == "spoil":
    module.warn("spoilt")
    basic.AnsibleModule.exit_json = None
    basic.SPOILT = True
    os._exit(3)
def about(name):
    m = sys.modules[name]
    spec = m.__spec__
    return [m.__name__, m.__file__, m.__package__, str(m.__loader__), str(spec), str(getattr(m, "__path__", None)),
            str(spec.loader is m.__loader__), str(spec.submodule_search_locations), m.__cached__]
names = sorted(n for n in sys.modules if n.partition(".")[0] in ("ansible", "ansible_collections"))
module.exit_json(
    names=names,
    about=[about(n) for n in names if ".six.moves" not in n and getattr(sys.modules[n], "__spec__", None)],
    meta=[str(type(f)) + str(getattr(f, "__name__", "")) for f in sys.meta_path], path=sys.path,
    files=sorted({f.__code__.co_filename for f in vars(basic).values() if hasattr(f, "__code__")}),
    methods=sorted({f.__code__.co_filename for f in vars(AnsibleModule).values() if hasattr(f, "__code__")}),
    within=[sorted(n for n in vars(sys.modules[m]) if n != "__builtins__") for m in names],
    spoilt=hasattr(basic, "SPOILT"), warned=str(kept.get_warning_messages()),
    environ=sorted(os.environ.keys() - {"RECORD_COLD"}),
    kinds=sorted(c.__qualname__ for c in dict.__subclasses__() if c.__module__.startswith("ansible")),
)
"""
HOW = ("spoil", "look", "crash", "crash within")


def _write_content(folder: Path) -> Path:
    (folder / "library").mkdir()
    lines = "\n".join(f"    {line}" for line in MODULE.splitlines())
    (folder / "library/probe.py").write_text(f"{HEAD}if True:{lines}\n")
    first = {"name": "first", "probe": {"how": "parent"}, "register": "first"}
    waits: dict[str, Any] = {
        "name": "until there is a template",
        "probe": {"how": "parent"},
        "register": "seen",
        "until": "(seen.parent != first.parent) or cold",
        "retries": 200,
        "delay": 0.1,
    }
    tasks: list[dict[str, Any]] = [first, waits]
    tasks += [{"name": how, "probe": {"how": how}, "ignore_errors": True} for how in HOW]
    (folder / "callback_plugins").mkdir()
    (folder / "callback_plugins/recorder.py").write_text(CALLBACK)
    playbook = folder / "play.json.yml"
    variables = {"cold": "{{ lookup('env', 'RECORD_COLD') == '1' }}"}
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}]))
    return playbook


@pytest.fixture(scope="module", params=CORES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Results]:
    """The same play, cold and warm, on each ansible-core."""
    python = interpreter_of(request.param)
    playbook = _write_content(tmp_path_factory.mktemp("templates"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANSIBLE_OPERATOR_TEMPLATES", "1")  # they are off unless asked for
        patch.setenv("RECORD_COLD", "1")
        cold = _played("cold", python=python, playbook=playbook)
        patch.delenv("RECORD_COLD")
        return cold, _played("warm", python=python, playbook=playbook)


@pytest.mark.parametrize("how", HOW)
def test_a_module_of_a_template_gives_the_same_result(both: tuple[Results, Results], how: str) -> None:
    """Modules, their specs and files, tracebacks and what was imported are those of cold, after a bad module too."""
    cold, warm = both
    assert warm.tasks["until there is a template"][1]["name"] == "warm-modules"
    assert warm.tasks["first"][1]["parent"] != warm.tasks["until there is a template"][1]["parent"]
    assert warm.tasks[how] == cold.tasks[how]
