"""Variables of a run: precedence, collisions, marks against templates, and what a spec may not set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.errors import ExecutionError
from runner.execution.parameters import Parameters, left_out, object_variable, parameters_for
from runner.kube.objects import GVK, Object
from runner.testing.executor import run_request
from runner.watches.model import Content, Finalizer, Watch

PROBE = GVK("operator-with-dash.example.com", "v1", "Example")
KEY = "_operator_with_dash_example_com_example"


def _parameters(spec: Any, *, finalizing: bool = False, status: Any = None, **watch: Any) -> Parameters:
    obj: Object = {
        "apiVersion": PROBE.api_version,
        "kind": PROBE.kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
        "status": status or {},
    }
    chosen = Watch(gvk=PROBE, content=Content(), **watch)
    return parameters_for(run_request(watch=chosen, obj=obj, finalizing=finalizing))


@pytest.mark.parametrize(
    ("gvk", "expected"),
    [
        (PROBE, KEY),
        (GVK("", "v1", "Secret"), "__secret"),
        (GVK("App.example.com", "v1", "MemCached"), "_App_example_com_memcached"),
    ],
)
def test_the_objects_variable_is_named_after_group_and_kind(gvk: GVK, expected: str) -> None:
    """Dots and dashes become underscores, and only the kind is lower-cased."""
    assert object_variable(gvk) == expected


def test_keys_are_converted_at_every_depth_and_values_never() -> None:
    """Keys in nested maps and in lists are converted; strings that look like keys are not (field case P2)."""
    variables = _parameters({"fooBar": [{"innerKey": "someValue"}], "size": 3}).variables
    assert variables["foo_bar"] == [{"inner_key": "someValue"}]
    assert variables["size"] == 3
    assert variables[f"{KEY}_spec"] == {"fooBar": [{"innerKey": "someValue"}], "size": 3}


def test_without_conversion_names_stay() -> None:
    """With snakeCaseParameters off, top-level names arrive as they are."""
    variables = _parameters({"fooBar": 1}, snake_case_parameters=False).variables
    assert variables["fooBar"] == 1
    assert "foo_bar" not in variables


def test_of_colliding_keys_the_equal_one_wins() -> None:
    """Three keys with one name: the one that is that name wins, and a note says so (field case P2)."""
    parameters = _parameters({"fooBar": 1, "foo-bar": 3, "foo_bar": 2})
    assert parameters.variables["foo_bar"] == 2
    assert parameters.notes == (
        (
            "spec.foo-bar (foo_bar is used), spec.fooBar (foo_bar is used): left out, as another key has the same name "
            "in snake case"
        ),
    )


def test_of_colliding_keys_without_an_equal_one_the_first_in_order_wins() -> None:
    """The winner doesn't depend on the order in the object; nested collisions are told by their path."""
    one = _parameters({"deep": {"foo-bar": "dash", "fooBar": "camel"}})
    other = _parameters({"deep": {"fooBar": "camel", "foo-bar": "dash"}})
    assert one.variables["deep"] == other.variables["deep"] == {"foo_bar": "dash"}
    assert one.notes[0].startswith("spec.deep.fooBar (foo-bar is used): ")


@pytest.mark.parametrize("spec", [None, "text", [1]])
def test_a_spec_that_is_no_map_counts_as_empty(spec: Any) -> None:
    """An absent or odd spec gives no variables, and `spec: {}` in the whole object."""
    variables = _parameters(spec).variables
    assert variables[f"{KEY}_spec"] == {}
    assert variables[KEY]["spec"] == {}


def test_later_sources_win() -> None:
    """Spec < meta < whole object < watch vars < finalizer vars, the last in a finalizing run only (field case P5)."""
    finalizer = Finalizer(name="example.com/f", vars={"state": "absent"})
    spec = {"ansibleOperatorMeta": {"name": "evil"}, "state": "from spec", KEY: "evil", f"{KEY}_spec": "evil"}
    normal = _parameters(spec, vars={"state": "present"}, finalizer=finalizer).variables
    final = _parameters(spec, vars={"state": "present"}, finalizer=finalizer, finalizing=True).variables
    assert normal["ansible_operator_meta"] == {"name": "web", "namespace": "default"}
    assert normal[KEY]["spec"]["state"] == "from spec"
    assert normal[f"{KEY}_spec"] == spec
    assert (normal["state"], final["state"]) == ("present", "absent")


def test_marks_reach_every_string_of_the_object_and_none_of_the_author() -> None:
    """With markUnsafe, strings at any depth are wrapped; keys, numbers, booleans, null and watch vars are not."""
    spec = {"s": "{{ x }}", "list": ["a", 1, {"k": "b"}], "n": 3, "t": True, "z": None}
    variables = _parameters(spec, mark_unsafe=True, vars={"mine": "{{ s }}"}).variables
    wrapped = {"__ansible_unsafe": "{{ x }}"}
    assert variables["s"] == wrapped
    assert variables["list"] == [{"__ansible_unsafe": "a"}, 1, {"k": {"__ansible_unsafe": "b"}}]
    assert (variables["n"], variables["t"], variables["z"]) == (3, True, None)
    assert variables[f"{KEY}_spec"]["s"] == variables[KEY]["spec"]["s"] == wrapped
    assert variables["mine"] == "{{ s }}"
    assert variables["ansible_operator_meta"]["name"] == "web"


def test_status_and_metadata_are_marked_in_any_watch() -> None:
    """A template in a status is text even where the spec is none (field case P3, second face)."""
    variables = _parameters({"s": "{{ x }}"}, status={"conditions": [{"message": "{{ nope }}"}]}).variables
    assert variables[KEY]["status"]["conditions"][0]["message"] == {"__ansible_unsafe": "{{ nope }}"}
    assert variables[KEY]["metadata"]["name"] == {"__ansible_unsafe": "web"}
    assert variables["s"] == variables[KEY]["spec"]["s"] == "{{ x }}"


@pytest.mark.parametrize(
    "name",
    [
        "ansibleConnection", "ansible_host", "ansible_become", "ansibleBecomeUser", "ansible_python_interpreter",
        "ansibleNodeInterpreter", "ansible_ssh_common_args", "ansible_shell_executable", "ansible_remote_tmp",
    ],
)  # fmt: skip
def test_a_connection_variable_in_a_spec_is_left_out(name: str) -> None:
    """Where and as whom Ansible runs is the operator's to say; the note names the variable (field case P5)."""
    parameters = _parameters({name: "evil", "ansibleVersion": "kept"})
    assert "evil" not in [value for value in parameters.variables.values() if isinstance(value, str)]
    assert parameters.variables["ansible_version"] == "kept"
    assert "connection variables" in parameters.notes[0]


def test_a_connection_variable_of_the_watch_stays() -> None:
    """The author of the operator may set it."""
    assert _parameters({}, vars={"ansible_connection": "ssh"}).variables["ansible_connection"] == "ssh"


def test_ansibles_own_marks_in_an_object_are_left_out() -> None:
    """A key that would change how the file of variables is read is dropped everywhere, and a note tells its path."""
    parameters = _parameters({"deep": [{"__ansible_unsafe": {"x": 1}, "kept": 1}], "__ansible_type": "x"})
    assert parameters.variables["deep"] == [{"kept": 1}]
    assert parameters.variables[f"{KEY}_spec"] == {"deep": [{"kept": 1}]}
    assert len(parameters.notes) == 1
    assert parameters.notes[0].startswith("spec.__ansible_type, spec.deep[].__ansible_unsafe: left out, ")


@pytest.mark.parametrize("name", ["-_ansible_type", "__Ansible_type", "-_ansible_vault", "- ansible_unsafe"])
def test_a_name_that_becomes_ansibles_own_is_left_out(name: str) -> None:
    """A key whose name in snake case is a mark of Ansible's reaches no variable at any depth, and is told."""
    parameters = _parameters({name: 1, "deep": [{name: "x", "kept": 1}]}, mark_unsafe=True)
    assert parameters.variables["deep"] == [{"kept": 1}]
    assert not [key for key in parameters.variables if key.startswith("__ansible_")]
    assert parameters.notes[0].startswith(f"spec.{name}, spec.deep[].{name}: left out, ")
    assert left_out({"deep": [{name: 1}]}, snake_case=True) == (f"deep[].{name}",)
    assert left_out({"deep": [{name: 1}]}, snake_case=False) == ()


@pytest.mark.parametrize("author", [None, {"name": {"__ansible_unsafe": "text"}}])
def test_no_spec_makes_a_name_of_ansibles_own(author: dict[str, Any] | None) -> None:
    """Whatever a spec holds, no key of the variables begins like Ansible's marks, but our own and the author's."""
    chance = random.Random(20261129)  # noqa: S311 - a test's samples must be the same each time
    pieces = ["_", "_", "-", " ", "A", "a", "ansible", "Ansible", "ANSIBLE", "_", "type", "vault", "unsafe", "x"]

    def some(depth: int) -> Any:
        names = ("".join(chance.choices(pieces, k=chance.randrange(1, 7))) for _ in range(8))
        return {name: chance.choice([1, [some(depth - 1)], some(depth - 1)]) if depth else 1 for name in names}

    for _ in range(40):
        for snake_case in (True, False):
            spec = {**some(2), "-_ansible_type": {"__Ansible_vault": 1}}
            variables = dict(_parameters(spec, snake_case_parameters=snake_case, vars={"own": author}).variables)
            assert variables.pop("own") == author
            variables[KEY] = {**variables[KEY], "metadata": {}, "status": {}}  # which hold our marks
            names = set(_keys(variables)) - {"apiVersion", "kind", "metadata", "status"}
            assert not [name for name in names if name.startswith("__ansible_")]


def _keys(value: Any) -> Iterator[str]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    yield from value if isinstance(value, dict) else ()
    for child in children:
        yield from _keys(child)


@pytest.mark.parametrize("name", ["__ansible_{}", "-_ansible_{}", "ansible_winrm_{}", "ansible-winrm-{}"])
@pytest.mark.parametrize("parent", ["", "p" * 20_000])
def test_what_is_told_of_names_stays_short(name: str, parent: str) -> None:
    """One line tells a few cut names and how many more there are, however many and however long they are."""
    keys = {name.format(f"{number}{'x' * 500}"): 1 for number in range(200)}
    spec: dict[str, Any] = {parent: {"__ansible_type": 1, **keys}} if parent else keys
    notes = _parameters(spec).notes
    told = left_out(spec, snake_case=True)
    assert all(len(text) < 1000 for text in (*notes, ", ".join(told)))
    assert len(notes) == 1
    if not parent:
        assert " and 190 more: left out" in notes[0]
        assert (len(told), told[-1]) == (11, "and 190 more")


def test_what_is_told_of_colliding_names_stays_short() -> None:
    """Thousands of keys with one name in snake case make one line."""
    keys = {f"{'p' * 100}{'-' if number % 2 else '_'}{number // 2}": 1 for number in range(2000)}
    (note,) = _parameters(keys).notes
    assert " and 990 more: left out" in note
    assert len(note) < 2000


def test_nothing_is_told_of_a_spec_that_is_too_deep() -> None:
    """Nothing of it runs, and a walk through it would not come to an end of its own."""
    spec: Any = {"__ansible_type": 1}
    for _ in range(2000):
        spec = {"k": spec}
    assert left_out(spec, snake_case=True) == ()


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    """Ansible could not read it as JSON, and would read it in a form in which marks mean nothing."""
    spec: Any = {}
    for _ in range(200):
        spec = {"k": spec}
    with pytest.raises(ExecutionError, match="nested more than 100 levels deep"):
        _parameters(spec)


def test_empty_and_blank_keys_are_kept() -> None:
    """Keys on which the peer crashes go through (field case P1)."""
    variables = _parameters({"": 1, " ": 2, "nested": {"": 3}}).variables
    assert (variables[""], variables[" "], variables["nested"]) == (1, 2, {"": 3})


def test_a_cluster_id_is_a_variable_that_a_spec_cannot_set() -> None:
    """What --cluster-id says beats a spec and loses to a watch; without the flag there is no such variable."""
    name = "ansible_operator_cluster_id"
    watch = Watch(gvk=PROBE, content=Content())
    request = run_request(watch=watch, obj={"metadata": {"name": "web"}, "spec": {"ansibleOperatorClusterId": "evil"}})
    assert parameters_for(request, cluster_id="east").variables[name] == "east"
    assert name not in _parameters({}).variables
    of_watch = run_request(watch=replace(watch, vars={name: "west"}), obj=request.obj)
    assert parameters_for(of_watch, cluster_id="east").variables[name] == "west"


def test_what_handlers_publish_is_a_variable_and_no_template() -> None:
    """Text from the cluster's objects is marked whatever the watch says; a spec cannot set it, a watch may."""
    name = "ansible_operator_handlers"
    watch = Watch(gvk=PROBE, content=Content(), handlers=Path("h.py"))
    spec = {"ansibleOperatorHandlers": "evil"}
    request = replace(
        run_request(watch=watch, obj={"metadata": {"name": "web"}, "spec": spec}),
        handlers={"pods": [{"name": "{{ x }}", "__ansible_unsafe": 1}]},
    )
    made = parameters_for(request)
    assert made.variables[name] == {"pods": [{"name": {"__ansible_unsafe": "{{ x }}"}}]}
    assert any("ansible_operator_handlers.pods[].__ansible_unsafe" in note for note in made.notes)
    assert parameters_for(replace(request, handlers={})).variables[name] == {}
    assert parameters_for(replace(request, watch=replace(watch, vars={name: "mine"}))).variables[name] == "mine"
    assert name not in _parameters({}).variables


def test_what_handlers_publish_must_not_be_too_deep() -> None:
    """Ansible could not read it, and the file is named."""
    deep: Any = 1
    for _ in range(120):
        deep = [deep]
    watch = Watch(gvk=PROBE, content=Content(), handlers=Path("h.py"))
    with pytest.raises(ExecutionError, match=r"what h\.py publishes is nested more than 100 levels deep"):
        parameters_for(replace(run_request(watch=watch), handlers={"a": deep}))


def test_what_is_left_out_is_told_by_its_path() -> None:
    """Connection variables of the first level and Ansible's own marks of every level, as their author wrote them."""
    spec = {"ansibleHost": 1, "b": [{"__ansible_unsafe": "x", "ansibleHost": 1}], "__ansible_type": "x", "size": 1}
    assert left_out(spec, snake_case=True) == ("__ansible_type", "ansibleHost", "b[].__ansible_unsafe")
    assert left_out(spec, snake_case=False) == ("__ansible_type", "b[].__ansible_unsafe")
    assert left_out(None, snake_case=True) == ()
