"""The writes of the replay: dry runs all of them, so that the API server's answers to both ways can be the same."""

from __future__ import annotations

from dataclasses import replace

from tools.proxy_bench.case import (
    CREATED,
    DEPLOYMENTS,
    JSON,
    MAPS,
    MERGE,
    PODS,
    PROTOBUF,
    Case,
    config_map,
    write,
)

_APPLY = "application/apply-patch+yaml"
_STRATEGIC = "application/strategic-merge-patch+json"
_MISFIT = [{"op": "test", "path": "/a", "value": 1}]
_JSON_PATCH = "application/json-patch+json"
_PATCHED = ("time", "resourceVersion")
_DRY = "dryRun=All"
_STATUS = f"{DEPLOYMENTS}/d/status?{_DRY}"
_SCALE = f"{DEPLOYMENTS}/d/scale?{_DRY}"
_SCALED = {"spec": {"replicas": 2}}
_ONE = f"{MAPS}/m-7?{_DRY}"
_APPLIED = f"{_DRY}&fieldManager=replay&force=true"
_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"}},
}
_EVICTION = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "p"},
    "deleteOptions": {"dryRun": ["All"]},
}
_TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
_NOWHERE = "/api/v1/namespaces/none/configmaps"
_ODD = {**config_map("new"), "nothing": 1}
_STRICT = f"POST {MAPS}?{_DRY}&fieldValidation="


def _yaml(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  a: b # a comment\n"


def _injected(case: Case) -> Case:
    return replace(case, injected=True)


CREATES = (
    _injected(write("create", f"POST {MAPS}?{_DRY}", body=config_map("new"))),
    _injected(write("create without a name", f"POST {MAPS}?{_DRY}", body=config_map(), masked=(*CREATED, "name"))),
    _injected(write("create from YAML", f"POST {MAPS}?{_DRY}", body=_yaml("n"), kind="application/yaml")),
    _injected(replace(write("create in chunks", f"POST {MAPS}?{_DRY}", body=config_map("new")), chunked=True)),
    _injected(write("create what is there", f"POST {MAPS}?{_DRY}", body=config_map("m-7"))),
    _injected(write("create with an unknown field, strictly", f"{_STRICT}Strict", body=_ODD)),
    _injected(write("create with an unknown field, warned of", f"{_STRICT}Warn", body=_ODD)),
    _injected(write("create in another namespace's name", f"POST {MAPS}?{_DRY}", body=config_map("n", namespace="x"))),
    _injected(write("create an invalid object", f"POST {MAPS}?{_DRY}", body=config_map("Not_A_Name"))),
    write("create in a namespace that is missing", f"POST {_NOWHERE}?{_DRY}", body=config_map("n")),
    write("create a kind that is missing", "POST /apis/nothing.example.com/v1/namespaces/{ns}/things", body={"a": 1}),
    write("ask for a right", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=_REVIEW),
    write("evict", f"POST {PODS}/p/eviction?{_DRY}", body=_EVICTION),
    write(
        "ask for a token", "POST /api/v1/namespaces/{ns}/serviceaccounts/default/token", body=_TOKEN,
        masked=(*CREATED, "token", "expirationTimestamp"),
    ),
    write("POST to an object", f"POST {_ONE}", body=config_map("m-7")),
)  # fmt: skip
REPLACES = (
    write("replace", f"PUT {_ONE}", body=config_map("m-7"), masked=_PATCHED),
    write("replace an old version", f"PUT {_ONE}", body=config_map("m-7", resourceVersion="1"), masked=_PATCHED),
    write("replace with another name", f"PUT {_ONE}", body=config_map("m-8"), masked=_PATCHED),
    write("replace what is missing", f"PUT {MAPS}/nothing?{_DRY}", body=config_map("nothing")),
    write("replace by protobuf", f"PUT {_ONE}", body="{protobuf}", kind=PROTOBUF, masked=_PATCHED),
    write("replace a status", f"PUT {_STATUS}", body="{deployment}", masked=_PATCHED),
    write("replace a collection", f"PUT {MAPS}", body=config_map("m-7")),
)
PATCHES = (
    write("merge patch", f"PATCH {_ONE}", body={"data": {"a": "c"}}, kind=MERGE, masked=_PATCHED),
    write("strategic merge patch", f"PATCH {_ONE}", body={"data": {"a": None}}, kind=_STRATEGIC, masked=_PATCHED),
    write(
        "JSON patch", f"PATCH {_ONE}", body=[{"op": "add", "path": "/data/b", "value": "c"}], kind=_JSON_PATCH,
        masked=_PATCHED,
    ),
    write("JSON patch that doesn't fit", f"PATCH {_ONE}", body=_MISFIT, kind=_JSON_PATCH),
    write("apply", f"PATCH {MAPS}/m-7?{_APPLIED}", body=_yaml("m-7"), kind=_APPLY, masked=_PATCHED),
    _injected(write("apply what is new", f"PATCH {MAPS}/new?{_APPLIED}", body=_yaml("new"), kind=_APPLY)),
    _injected(write("apply JSON", f"PATCH {MAPS}/new?{_APPLIED}", body=config_map("new"), kind=_APPLY)),
    write("apply without a manager", f"PATCH {_ONE}", body=_yaml("m-7"), kind=_APPLY),
    write("a patch of no type", f"PATCH {_ONE}", body={"data": {}}, kind=JSON),
    write("a patch of what is missing", f"PATCH {MAPS}/nothing?{_DRY}", body={"data": {}}, kind=MERGE),
    write("a patch of an old version", f"PATCH {_ONE}", body={"metadata": {"resourceVersion": "1"}}, kind=MERGE),
    write("a patch of a status", f"PATCH {_STATUS}", body={"status": {}}, kind=MERGE, masked=_PATCHED),
    write("a patch of a scale", f"PATCH {_SCALE}", body=_SCALED, kind=MERGE, masked=_PATCHED),
    write("a patch of a collection", f"PATCH {MAPS}", body={"data": {}}, kind=MERGE),
)  # fmt: skip
DELETES = (
    write("delete", f"DELETE {_ONE}"),
    write("delete by options", f"DELETE {MAPS}/m-7", body={"dryRun": ["All"], "propagationPolicy": "Foreground"}),
    write("delete another one of that name", f"DELETE {_ONE}", body={"preconditions": {"uid": "x"}}),
    write(
        "delete, orphaning", f"DELETE {DEPLOYMENTS}/d?{_DRY}&propagationPolicy=Orphan", masked=("deletionTimestamp",)
    ),
    write("delete with a grace period", f"DELETE {PODS}/p?{_DRY}&gracePeriodSeconds=0", masked=("deletionTimestamp",)),
    write("delete what is missing", f"DELETE {MAPS}/nothing"),
    write("delete some", f"DELETE {MAPS}?labelSelector=role%3Da&{_DRY}", masked=("resourceVersion",)),
)
WRITES = (*CREATES, *REPLACES, *PATCHES, *DELETES)
