"""The ten cases: what both operators are put through. `scripts` tell what happens, `world` does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.compare import scripts
from tools.compare.cluster import GROUP, VERSION
from tools.compare.content import debug, fail, play, playbook, record, role
from tools.compare.world import Case, Kind

_SELECTOR = {"matchLabels": {"compare": "yes"}}
_EXPLICIT = {"ANSIBLE_GATHERING": "explicit"}


def _watch(kind: str, **keys: Any) -> Mapping[str, Any]:
    return {"group": GROUP, "version": VERSION, "kind": kind, **keys}


def _key(kind: str, *, rest: str = "") -> str:
    """Return the variable with the whole object of *kind*."""
    return f"_compare_example_com_{kind.lower()}{rest}"


_META = "ansible_operator_meta"

CASES: tuple[Case, ...] = (
    Case(
        name="01-names",
        title="role; snake case of many names; facts",
        kinds=(Kind(name="Named"),),
        watches=[_watch("Named", role="names")],
        files=role(
            "names",
            record(
                _META,
                "var",
                "foo_bar",
                "_this_should_have_underscores",
                "egress_ips",
                "egress_ips_egress",
                "http_s_port",
                "user_i_ds",
                "foo.dot",
                "outer_key",
                "sizeK8sBuckets",
                "size_k8s_buckets",
                "ansible_port",
                "ansible_connection",
                _key("named", rest="_spec"),
            ),
        ),
        script=scripts.names,
    ),
    Case(
        name="02-playbook",
        title="playbook; cluster-scoped kind; snakeCaseParameters false; vars; a change of the spec",
        kinds=(Kind(name="Global", namespaced=False),),
        watches=[
            _watch(
                "Global",
                playbook="playbooks/global.yml",
                snakeCaseParameters=False,
                maxRunnerArtifacts=5,
                reconcilePeriod="1h",
                vars={
                    "overridden": "by the watch",
                    "meta": "{{ ansible_operator_meta }}",
                    "numbers": [1, 2.5, True, None],
                },
            )
        ],
        files=playbook(
            "playbooks/global.yml",
            record(
                _META, "camelCase", "camel_case", "overridden", "meta", "numbers", "added", _key("global", rest="_spec")
            ),
            debug("text of a task"),
        ),
        script=scripts.playbook,
        environ=_EXPLICIT,
    ),
    Case(
        name="03-unsafe",
        title="markUnsafe true and false, templates in spec and metadata",
        kinds=(Kind(name="Unsafe"), Kind(name="Templated")),
        watches=[
            _watch("Unsafe", role="unsafe", markUnsafe=True, vars={"own": "{{ 2 + 2 }}"}),
            _watch("Templated", role="templated", vars={"own": "{{ 2 + 2 }}"}),
        ],
        files={
            **role("unsafe", record("text", "nested", "number", "nothing", "own", _key("unsafe", rest="_spec"))),
            **role(
                "templated",
                record(
                    "text",
                    "nested",
                    "number",
                    "nothing",
                    "own",
                    _key("templated", rest="_spec"),
                    f"{_key('templated')} . metadata.annotations",
                ),
            ),
        },
        script=scripts.unsafe,
        environ=_EXPLICIT,
    ),
    Case(
        name="04-finalizer",
        title="finalizer with vars and with a role of its own; deletion",
        kinds=(Kind(name="Held"), Kind(name="Kept")),
        watches=[
            _watch(
                "Held",
                role="held",
                vars={"state": "present"},
                finalizer={"name": "compare.example.com/held", "vars": {"state": "absent"}},
            ),
            _watch("Kept", role="held", finalizer={"name": "compare.example.com/kept", "role": "clean"}),
        ],
        files={**role("held", record("size", "state", _META)), **role("clean", record("size", "state", at="clean"))},
        script=scripts.finalizer,
        environ=_EXPLICIT,
    ),
    Case(
        name="05-repair",
        title="failing task: plain, in a loop, with no_log, two of them ignored or not; then a repaired spec",
        kinds=(Kind(name="Fragile"),),
        watches=[_watch("Fragile", role="fragile")],
        files=role(
            "fragile",
            record("how"),
            fail("ignored at first", when="how == 'both'", ignore_errors=True),
            fail("it is {{ how }}", when="how in ['plain', 'both']"),
            fail("item {{ item }}", when="how == 'loop'", loop=[1, 2]),
            fail("a secret", when="how == 'no_log'", no_log=True),
        ),
        script=scripts.repair,
        environ=_EXPLICIT,
    ),
    Case(
        name="06-rescue",
        title="failure in a block with rescue; failure with ignore_errors",
        kinds=(Kind(name="Rescued"), Kind(name="Ignored")),
        watches=[_watch("Rescued", role="rescued"), _watch("Ignored", role="ignored")],
        files={
            **role(
                "rescued",
                record("size"),
                {"name": "Try", "block": [fail("tried")], "rescue": [debug("rescued")]},
            ),
            **role("ignored", record("size"), fail("ignored", ignore_errors=True), debug("went on")),
        },
        script=scripts.rescue,
        environ=_EXPLICIT,
    ),
    Case(
        name="07-broken",
        title="unreachable host; module that does not exist",
        kinds=(Kind(name="Unreachable"), Kind(name="Unknown")),
        watches=[_watch("Unreachable", playbook="far.yml"), _watch("Unknown", role="unknown")],
        files={
            "far.yml": [
                play([
                    record("size"),
                    {
                        "name": "Name a host where nobody listens",
                        "ansible.builtin.add_host": {
                            "name": "nowhere",
                            "ansible_host": "127.0.0.1",
                            "ansible_port": 1,
                            "ansible_connection": "ssh",
                        },
                    },
                ]),
                play([{"name": "Reach it", "ansible.builtin.ping": {}}], hosts="nowhere"),
            ],
            **role("unknown", record("size"), {"name": "Use it", "no.such.module": {}}),
        },
        script=scripts.broken,
        environ=_EXPLICIT,
    ),
    Case(
        name="08-secrets",
        title="core Secret as primary; manageStatus false; selector",
        kinds=(Kind(name="Secret", core=True), Kind(name="Labelled")),
        watches=[
            {
                "version": VERSION,
                "kind": "Secret",
                "role": "secret",
                "manageStatus": False,
                "selector": _SELECTOR,
            },
            _watch("Labelled", role="labelled", selector=_SELECTOR),
        ],
        files={
            **role("secret", record(_META, "__secret . data", "__secret_spec")),
            **role("labelled", record("size")),
        },
        script=scripts.secrets,
        environ=_EXPLICIT,
    ),
    Case(
        name="09-requeue",
        title="operator_sdk.util.requeue_after, with a period and with nonsense",
        kinds=(Kind(name="Repeated"),),
        watches=[_watch("Repeated", role="repeated")],
        files=role(
            "repeated",
            record("after"),
            {"name": "Ask to be run again", "operator_sdk.util.requeue_after": {"time": "{{ after }}"}},
            debug("after the request"),
        ),
        script=scripts.requeue,
        environ=_EXPLICIT,
    ),
    Case(
        name="10-annotations",
        title="annotations: period, verbosity, artifacts, each good and bad; watchAnnotationsChanges",
        kinds=(Kind(name="Annotated"),),
        watches=[_watch("Annotated", role="annotated", watchAnnotationsChanges=True)],
        files=role("annotated", record(_META, _key("annotated") + " . metadata.annotations")),
        script=scripts.tuned,
        environ=_EXPLICIT,
    ),
)
