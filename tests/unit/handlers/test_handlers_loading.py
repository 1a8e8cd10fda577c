"""Files of handlers to a registry: what is taken, and what ends the start with file, line and remedy."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import kopf
import pytest

from runner.errors import ConfigError
from runner.handlers.loading import load

EVENT = "@kopf.on.event('pods')\ndef see(**_): ...\n"


def written(folder: Path, text: str, *, name: str = "thing.py") -> Path:
    """Return a file with *text* in it."""
    path = folder / name
    path.write_text(dedent(text))
    return path


def test_each_decorators_handlers_are_known_by_file(tmp_path: Path) -> None:
    """What two files register is told apart, and the default registry of kopf is what it was."""
    before = kopf.get_default_registry()
    first = written(tmp_path, f"import kopf\n{EVENT}@kopf.index('pods')\ndef all_pods(**_): ...\n")
    second = written(
        tmp_path,
        """
        import kopf
        @kopf.timer('pods', interval=1)
        def tick(**_): ...
        @kopf.daemon('pods')
        def follow(**_): ...
        @kopf.on.validate('pods')
        def check(**_): ...
        @kopf.on.mutate('pods')
        def change(**_): ...
        @kopf.on.startup()
        def start(**_): ...
        @kopf.on.cleanup()
        def end(**_): ...
        """,
        name="other.py",
    )
    loaded = load([first, second, first])
    assert {
        path.name: sorted((handler.decorator, handler.id) for handler in handlers)
        for path, handlers in loaded.files.items()
    } == {
        "thing.py": [("index", "all_pods"), ("on.event", "see")],
        "other.py": [
            ("daemon", "follow"), ("on.cleanup", "end"), ("on.mutate", "change"), ("on.startup", "start"),
            ("on.validate", "check"), ("timer", "tick"),
        ],
    }  # fmt: skip
    assert loaded.of("index") == ["all_pods"]
    assert kopf.get_default_registry() is before


def test_a_file_is_imported_once_with_its_neighbours_in_reach(tmp_path: Path) -> None:
    """What stands beside the file can be imported, and a file that two entries name is not run twice."""
    written(tmp_path, "count = []\n", name="beside_the_handlers.py")
    path = written(tmp_path, f"import kopf, beside_the_handlers\nbeside_the_handlers.count.append(1)\n{EVENT}")
    load([path, path])
    assert sys.modules["beside_the_handlers"].count == [1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import kopf\n@kopf.on.event('pods'\ndef see(**_): ...\n", "FILE:2: SyntaxError: '(' was never closed"),
        ("if True:\nx = 1\n", "FILE:2: IndentationError: expected an indented block after 'if' statement on line 1"),
        ("import kopf\n\nimport no_such_module\n", "FILE:3: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import kopf\nfrom kopf import nothing\n", "FILE:2: ImportError: cannot import name 'nothing'"),
        ("import kopf\n\n\ndef f():\n    raise ValueError('bad')\n\nf()\n", "FILE:5: ValueError: bad; correct it"),
        ("import kopf\n@kopf.on.event()\ndef see(**_): ...\n", "FILE:2: TypeError"),
        ("raise SystemExit(3)\n", "FILE: it ended the program (3) when it was imported; delete that call"),
        ("x = 1\n", "FILE: there are no handlers in it; add one"),
        ("import kopf\n@kopf.on.create('pods')\ndef c(**_): ...\n", "FILE:2: @kopf.on.create can't be used here: k"),
        ("import kopf\n@kopf.on.update('pods')\ndef c(**_): ...\n", "FILE:2: @kopf.on.update can't be used here"),
        ("import kopf\n@kopf.on.delete('pods')\ndef c(**_): ...\n", "FILE:2: @kopf.on.delete can't be used here"),
        ("import kopf\n@kopf.on.resume('pods')\ndef c(**_): ...\n", "FILE:2: @kopf.on.resume can't be used here"),
        ("import kopf\n@kopf.on.field('pods', field='a')\ndef c(**_): ...\n", "FILE:2: @kopf.on.field can't be used"),
        ("import kopf\n@kopf.on.login()\ndef c(**_): ...\n", "FILE:2: @kopf.on.login can't be used here: handlers use"),
        ("import kopf\n@kopf.on.probe()\ndef c(**_): ...\n", "FILE:2: @kopf.on.probe can't be used here: kopf's own"),
        ("from .. import x\n", "FILE:1: ImportError: attempted relative import beyond top-level package; a file of h"),
        ("import kopf\n@kopf.index('pods')\ndef spec(**_): ...\n", "FILE:2: an index can't be called spec, as func"),
        (
            "import kopf\nfrom runner.handlers import published\n" + EVENT
            + "@published\ndef a(**_): ...\n@published\ndef a(**_): ...\n",
            "FILE:7: a is published twice; give it another name",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    """Whatever is wrong with a file ends the start with one sentence, and leaves no half-made module."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load([path])
    assert str(caught.value).startswith(expected.replace("FILE", str(path))), str(caught.value)


def test_a_relative_import_is_told_with_the_way_to_write_it(tmp_path: Path) -> None:
    """Wherever the operator was started: a folder `handlers` there is no package of the file."""
    path = written(tmp_path, "from . import x\n")
    with pytest.raises(ConfigError, match=r":1: \w+Error: .* 'handlers'.*; a file of handlers is in no package"):
        load([path])


def test_a_missing_library_is_told_with_where_it_belongs(tmp_path: Path) -> None:
    """The environment of the operator may be another one than Ansible's."""
    with pytest.raises(ConfigError, match="install what brings no_such_module in the environment of the operator"):
        load([written(tmp_path, "import no_such_module\n")])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A file that is gone between the check and the import is told as such."""
    with pytest.raises(ConfigError, match=r"gone\.py: cannot be read: No such file or directory; check its path"):
        load([tmp_path / "gone.py"])


def test_a_mistake_in_a_neighbour_is_told_where_it_is(tmp_path: Path) -> None:
    """The line is that of the module beside the file, which the person can correct."""
    neighbour = written(tmp_path, "x = 1\ny = x.nothing\n", name="neighbour_with_a_bug.py")
    path = written(tmp_path, "import neighbour_with_a_bug\n")
    with pytest.raises(ConfigError) as caught:
        load([path])
    assert str(caught.value).startswith(f"{neighbour}:2: AttributeError")


def test_two_indexes_of_one_name_are_refused(tmp_path: Path) -> None:
    """They would be mixed, whichever files they are in; one function for two kinds is one index."""
    text = "import kopf\n@kopf.index('pods')\n@kopf.index('nodes')\ndef things(**_): ...\n"
    first = written(tmp_path, text)
    load([first])
    with pytest.raises(ConfigError, match=r"other.py:2: there is another index things at .*thing.py:2; give one"):
        load([first, written(tmp_path, text, name="other.py")])


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (
            "@kopf.on.validate('pods')\ndef check_it",
            "@kopf.on.validate('nodes')\ndef other",
            "admission handler",
        ),
        ("@kopf.on.validate('pods')\ndef check_it", "@kopf.on.mutate('pods')\ndef other", "admission handler"),
        ("@kopf.on.mutate('pods')\n@kopf.on.mutate('nodes')\ndef check_it", "", "admission handler"),
        ("@kopf.timer('pods')\ndef check_it", "@kopf.timer('nodes')\ndef other", "timer or daemon"),
        ("@kopf.daemon('pods')\ndef check_it", "@kopf.timer('pods')\ndef other", "timer or daemon"),
    ],
)
def test_two_handlers_that_kopf_would_mix_are_refused(tmp_path: Path, first: str, second: str, what: str) -> None:
    """Where a name is a path or the key of what runs, it is one handler's, whichever files they are in."""
    rest = f"{second}(**_): ...\n".replace("')\ndef", "', id='check_it')\ndef") if second else EVENT
    files = [
        written(tmp_path, f"import kopf\n{first}(**_): ...\n"),
        written(tmp_path, f"import kopf\n{rest}", name="other.py"),
    ]
    with pytest.raises(
        ConfigError, match=rf"py:2: there is another {what} check.it at .*py:2; give one of them another name"
    ):
        load(files)


def test_one_function_may_be_the_timer_of_two_kinds(tmp_path: Path) -> None:
    """An object is of one kind, so kopf mixes nothing."""
    text = "import kopf\n@kopf.timer('pods')\n@kopf.timer('nodes')\ndef tick(**_): ...\n"
    assert load([written(tmp_path, text)]).of("timer") == ["tick", "tick"]


def test_what_a_file_publishes_is_its_own(tmp_path: Path) -> None:
    """Functions are known by file and name; outside of a load the decorator does nothing."""
    text = f"import kopf\nfrom runner.handlers import published\n{EVENT}@published\ndef numbers(**_):\n    return [1]\n"
    path, other = written(tmp_path, text), written(tmp_path, f"import kopf\n{EVENT}", name="other.py")
    loaded = load([path, other])
    assert {file.name: list(found) for file, found in loaded.published.items()} == {
        "thing.py": ["numbers"],
        "other.py": [],
    }
    assert loaded.published[path]["numbers"]() == [1]
