"""docs/handlers.md: what it shows can be pasted."""

from __future__ import annotations

import re
from pathlib import Path

import kopf
import pytest

from runner.handlers.configuration import FINALIZER, TOUCHED
from runner.handlers.loading import load
from runner.observe.metrics import Metrics
from runner.settings import Settings
from runner.watches.loader import load_watches

PAGE = (Path(__file__).resolve().parents[3] / "docs/handlers.md").read_text()
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_tutorials_project_loads_without_a_note(tmp_path: Path) -> None:
    """Watches, role and handlers are found, and the log would say what the page says."""
    files = {block.splitlines()[0].removeprefix("# "): block for block in [*YAML, PYTHON[0]]}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    watches = load_watches(Path("watches.yaml"), settings=Settings(), environ={}, cwd=tmp_path)
    assert watches.notes == ()
    assert watches.watches[0].handlers == tmp_path / "handlers/report.py"
    loaded = load([tmp_path / "handlers/report.py"])
    (handlers,) = loaded.files.values()
    told = [f"{handler.decorator} {handler.id}" for handler in handlers]
    assert f'"handlers":{told}'.replace("'", '"').replace(", ", ",") in PAGE
    (published,) = loaded.published.values()
    assert published["waiting_pods"](waiting={"prod": ["b", "a"]}, namespace="prod", name="x") == ["a", "b"]


async def test_the_admission_handler_does_what_it_says(tmp_path: Path) -> None:
    """It refuses what it shall, and warns."""
    path = tmp_path / "admission_of_the_page.py"
    path.write_text(f"import kopf\n{PYTHON[1]}")
    (handlers,) = load([path]).files.values()
    check = handlers[0].function
    warnings: list[str] = []
    with pytest.raises(kopf.AdmissionError, match="must not be negative"):
        await check(spec={"limit": -1}, warnings=warnings)
    await check(spec={"limit": 1}, warnings=warnings)
    assert len(warnings) == 1


def test_the_page_has_every_name_that_people_look_for() -> None:
    """Finalizer, annotation and metrics are those of the code."""
    assert FINALIZER in PAGE
    assert TOUCHED in PAGE
    metrics = Metrics()
    metrics.handlers.running_when("f", lambda: True)
    metrics.handlers.failed("h")
    names = {name for name in re.findall(r"ansible_operator_handlers?_\w+", metrics.text()) if "created" not in name}
    assert names <= set(re.findall(r"ansible_operator_handlers?_\w+", PAGE))
