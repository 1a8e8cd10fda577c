"""Every budget of `make check` refuses a bad sample under the project's own configuration; the limit itself passes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "pyproject.toml"
BIN = Path(sys.executable).parent


def module(body: str) -> str:
    """Return a source file with all that ruff asks for, around *body*."""
    return f'"""A sample."""\n\n{body}\n'


def branches(count: int) -> str:
    """Return a function of the complexity *count*."""
    tests = "\n".join(f"    if number == {n}:\n        total += 1" for n in range(count - 1))
    return module(f'\ndef choose(number: int) -> int:\n    """Choose."""\n    total = 0\n{tests}\n    return total')


def nested(depth: int) -> str:
    """Return a function with *depth* blocks in one another."""
    blocks = "\n".join(f"{'    ' * (n + 1)}for n{n} in range(number):" for n in range(depth))
    inner = "    " * (depth + 1) + "print(" + ", ".join(f"n{n}" for n in range(depth)) + ")"
    return module(f'\ndef walk(number: int) -> None:\n    """Walk."""\n{blocks}\n{inner}')


def parameters(count: int) -> str:
    """Return a function with *count* keyword-only parameters."""
    listed = ", ".join(f"p{n}: int" for n in range(count))
    return module(f'\ndef take(*, {listed}) -> None:\n    """Take."""')


def positional(count: int) -> str:
    """Return a method with *count* positional parameters beside self."""
    listed = ", ".join(f"p{n}: int" for n in range(count))
    return module(f'\nclass Taker:\n    """Takes."""\n\n    def take(self, {listed}) -> None:\n        """Take."""')


def ruff(source: str, *, name: str = "runner/sample.py") -> set[str]:
    """Return the codes that ruff reports for *source* under the project's configuration."""
    command: list[Path | str] = [
        BIN / "ruff",
        "check",
        "--config",
        CONFIG,
        "--output-format",
        "json",
        "--stdin-filename",
        ROOT / name,
    ]
    done = subprocess.run([*command, "-"], input=source, capture_output=True, text=True, check=False, cwd=ROOT)
    return {str(finding["code"]) for finding in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("build", "limit", "code"),
    [(branches, 10, "C901"), (nested, 3, "PLR1702"), (parameters, 7, "PLR0913"), (positional, 2, "PLR0917")],
)
def test_a_numeric_budget_passes_at_its_limit_and_fails_one_above(
    build: Callable[[int], str], limit: int, code: str
) -> None:
    """Complexity 10, nesting 3, 7 parameters and 2 positional ones pass, and one more of each is refused."""
    assert ruff(build(limit)) == set()
    assert code in ruff(build(limit + 1))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param("print()\n", "D100", id="module-docstring"),
        pytest.param(module("\nclass Thing:\n    pass"), "D101", id="class-docstring"),
        pytest.param(
            module('\nclass Thing:\n    """A."""\n\n    def go(self) -> None:\n        pass'),
            "D102",
            id="method-docstring",
        ),
        pytest.param(module("\ndef go() -> None:\n    pass"), "D103", id="function-docstring"),
        pytest.param(module('\ndef go(n) -> None:  # type: ignore[x]\n    """A."""'), "ANN001", id="annotation"),
        pytest.param(module('\ndef go():\n    """A."""\n    return 1'), "ANN201", id="return-annotation"),
        pytest.param(module("N: int = 'a'  # type: ignore"), "PGH003", id="bare-type-ignore"),
        pytest.param(module("try:\n    print()\nexcept Exception:\n    print(1)"), "BLE001", id="broad-except"),
        pytest.param(module("try:\n    print()\nexcept:\n    print(1)"), "E722", id="bare-except"),
        pytest.param(module(f"N = '{'a' * 120}'"), "E501", id="long-line"),
    ],
)
def test_ruff_refuses_a_bad_sample(source: str, code: str) -> None:
    """A missing docstring or annotation, a bare ignore, a broad except and a long line are refused."""
    assert code in ruff(source)


def test_a_test_function_without_docstring_or_annotation_is_refused() -> None:
    """The budgets hold for tests too, apart from what tests are allowed on purpose."""
    found = ruff(module("\ndef test_thing(n):\n    assert n"), name="tests/unit/test_sample.py")
    assert {"D103", "ANN001", "ANN201"} <= found
    assert "S101" not in found


@pytest.fixture(scope="module")
def mypy_codes(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the codes that one run of mypy reports for a file of bad samples."""
    folder = tmp_path_factory.mktemp("mypy")
    sample = folder / "bad_sample.py"
    sample.write_text(
        module(
            "def untyped(n):\n    return n\n\n\n"
            "def generic(n: list) -> None:\n    print(n)\n\n\n"
            "def wrong() -> int:\n    return 'a'\n\n\n"
            "def bare() -> int:\n    return 'a'  # type: ignore\n\n\n"
            "def unneeded() -> int:\n    return 1  # type: ignore[return-value]\n\n\n"
            "def dead() -> int:\n    return 1\n    print()\n"
        )
    )
    command: list[Path | str] = [
        BIN / "mypy",
        "--config-file",
        CONFIG,
        "--cache-dir",
        folder / "cache",
        "--no-error-summary",
        sample,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return set(re.findall(r"\[([a-z-]+)\]$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize(
    "code", ["no-untyped-def", "type-arg", "return-value", "ignore-without-code", "unused-ignore", "unreachable"]
)
def test_mypy_refuses_a_bad_sample(mypy_codes: set[str], code: str) -> None:
    """Strict typing is on: each kind of untyped, wrong or silenced code is reported."""
    assert code in mypy_codes


LAYERED = (
    "assembly", "cli", "clock", "errors", "execution", "handlers", "kube", "localdev", "logs", "observe", "owner",
    "proxy", "reconcile", "settings", "sources", "status", "testing", "watches", "workqueue",
)  # fmt: skip


def lint_imports(folder: Path, *, imports: dict[str, str]) -> str:
    """Return what lint-imports says about a package of our layers whose modules import as given; empty: all kept."""
    for name in LAYERED:
        package = folder / "runner" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(imports.get(name, "") + "\n")
    (folder / "runner" / "__init__.py").write_text("")
    command: list[Path | str] = [BIN / "lint-imports", "--config", CONFIG, "--no-cache", "--no-logo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.stdout if done.returncode else ""


def test_layers_that_import_only_downwards_pass(tmp_path: Path) -> None:
    """A package whose lines import only lines below them keeps all contracts."""
    assert lint_imports(tmp_path, imports={"cli": "import runner.kube", "kube": "import runner.clock"}) == ""


@pytest.mark.parametrize(
    ("name", "line", "contract"),
    [
        ("kube", "import runner.sources", "Stages import only"),
        ("sources", "import runner.reconcile", "Stages import only"),
        ("status", "import ansible", "Ansible is imported only"),
        ("sources", "import kopf", "kopf is imported only"),
    ],
)
def test_an_import_against_the_contract_is_refused(tmp_path: Path, name: str, line: str, contract: str) -> None:
    """An import upwards, between neighbours, of Ansible or of kopf breaks the contract that forbids it."""
    said = lint_imports(tmp_path, imports={name: line})
    assert re.search(rf"{contract}.*?BROKEN", said, re.DOTALL)
