"""The limits that ruff has no rule for, as `tools/limits.py` checks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import limits


def function(lines: int, *, comment: str = "", name: str = "go") -> str:
    """Return a function of *lines* lines, its docstring counted."""
    body = "\n".join("    print()" for _ in range(lines - 2))
    return f'def {name}() -> None:{comment}\n    """Go."""\n{body}\n'


def messages(path: Path, *, text: str) -> list[str]:
    """Write *text* to *path* and return what is found in it, as a person sees it."""
    path.write_text(text)
    return [str(finding) for finding in limits.findings(limits.parse(path))]


def test_a_function_passes_at_sixty_lines_and_fails_at_sixty_one(tmp_path: Path) -> None:
    """A function of 60 lines passes; one of 61 is named with file, line and remedy."""
    path = tmp_path / "sample.py"
    assert messages(path, text="\n" + function(60)) == []
    found = messages(path, text="\n" + function(61))
    assert found == [f"{path}:2: go has 61 lines, the limit is 60: take a named step out"]


def test_a_nested_and_an_async_function_count_as_functions(tmp_path: Path) -> None:
    """Methods and coroutines have the same limit."""
    method = "class A:\n" + "".join(f"    {line}\n" for line in f"async {function(61)}".splitlines())
    assert len(messages(tmp_path / "sample.py", text=method)) == 1


def test_a_reason_on_the_def_line_exempts_and_a_bare_mark_does_not(tmp_path: Path) -> None:
    """An exemption needs its reason."""
    path = tmp_path / "sample.py"
    assert messages(path, text=function(61, comment="  # limit: one row per case of the table")) == []
    assert "exemption without a reason" in messages(path, text=function(61, comment="  # limit:"))[0]


def test_a_file_passes_at_500_lines_and_fails_at_501(tmp_path: Path) -> None:
    """A file of 500 lines passes, one of 501 is refused."""
    path = tmp_path / "sample.py"
    assert messages(path, text="#\n" * 500) == []
    assert messages(path, text="#\n" * 501)[0].startswith(f"{path}:1: file has 501 lines")


@pytest.mark.parametrize(
    ("docstring", "said"),
    [
        ("", "has no docstring"),
        ('    """Do this.\n\n    And that.\n    """\n', "more than one paragraph"),
        ('    """Do this."""\n', ""),
    ],
)
def test_a_test_says_its_behaviour_in_one_paragraph(tmp_path: Path, docstring: str, said: str) -> None:
    """A test without docstring, or with an essay, is refused."""
    found = messages(tmp_path / "test_sample.py", text=f"def test_it() -> None:\n{docstring}    assert True\n")
    assert (said in found[0]) if said else found == []


def test_the_command_fails_on_a_finding_and_passes_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is what `make check` goes by."""
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "sample.py").write_text(function(61))
    assert limits.main(["--root", str(tmp_path)]) == 1
    (tmp_path / "runner" / "sample.py").write_text(function(3))
    assert limits.main(["--root", str(tmp_path)]) == 0
    assert "limits: 1 files, 0 findings" in capsys.readouterr().out


def test_the_report_prints_medians_and_the_ratio_of_tests_to_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures describe the code and don't fail."""
    for folder, lines in (("runner", 10), ("tests", 5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sample.py").write_text(function(lines))
    assert limits.main(["--root", str(tmp_path), "--report"]) == 0
    figures = capsys.readouterr().out
    assert "median function, lines      10" in figures
    assert "test lines per source line  0.50" in figures
