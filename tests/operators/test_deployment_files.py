"""The image, the pins and the manifests name things that exist and agree with each other."""

from __future__ import annotations

import json
import re
import shlex
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.cli.configure import configure
from runner.cli.flags import FLAGS
from runner.cli.run import run
from runner.observe.address import split_address
from runner.settings import Settings
from runner.watches.loader import load_watches

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
OWNS_NOTHING = {"Autoscaler"}
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)", re.MULTILINE)


def instructions() -> list[list[str]]:
    """Return the words of each instruction of the Dockerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.strip() and not line.startswith("ENTRYPOINT")]


def copied() -> list[str]:
    """Return what the image takes from the tree."""
    found: list[str] = []
    for word, *arguments in instructions():
        if word == "COPY" and not any(argument.startswith("--from=") for argument in arguments):
            found += [argument for argument in arguments if not argument.startswith("--")][:-1]
    return found


def test_everything_that_the_image_copies_exists_and_is_not_ignored() -> None:
    """Each source of a COPY is in the tree, and .dockerignore lets it through."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert Path(source).parts[0] in allowed, source


def test_image_holds_all_the_content() -> None:
    """Watches, roles, playbooks and plugins are in the image."""
    assert {"watches.yaml", "roles", "handlers", "playbooks", "plugins"} <= set(copied())


def test_image_runs_as_the_fields_user_from_its_home() -> None:
    """The user, the home and the entry point are those that the field's manifests expect."""
    words = instructions()
    assert ["USER", "1001"] in words
    assert ["WORKDIR", "/opt/ansible"] in words
    entry = re.search(r"^ENTRYPOINT (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert entry is not None
    assert json.loads(entry.group(1))[1:] == ["run", "--watches-file=./watches.yaml"]


def test_build_pins_are_those_of_the_development_pins() -> None:
    """The tools that build the wheel have the same versions and hashes as in dev.txt."""
    development = (ROOT / "requirements" / "dev.txt").read_text()
    build = (ROOT / "requirements" / "build.txt").read_text()
    assert dict(_PIN.findall(build)).items() <= dict(_PIN.findall(development)).items()
    hashes = re.findall(r"--hash=\S+", build)
    assert hashes
    assert all(one in development for one in hashes)


@pytest.mark.parametrize("name", ["amazon.aws", "kubernetes.core"])
def test_collections_are_the_pinned_ones(name: str) -> None:
    """The versions in requirements.yml are those that the environment got."""
    wanted = {
        one["name"]: one["version"] for one in yaml.safe_load((ROOT / "requirements.yml").read_text())["collections"]
    }
    collections = Path(sysconfig.get_path("purelib")) / "ansible_collections"
    manifest = collections / name.replace(".", "/") / "MANIFEST.json"
    assert json.loads(manifest.read_text())["collection_info"]["version"] == wanted[name]


def test_watches_take_nothing_for_a_template() -> None:
    """Every watch of ours has markUnsafe, and a finalizer where it owns anything; its content exists (P3)."""
    watches = load_watches(ROOT / "watches.yaml", settings=Settings(), environ={}, cwd=ROOT).watches
    assert watches
    for watch in watches:
        assert watch.mark_unsafe
        if watch.gvk.kind in OWNS_NOTHING:
            continue
        assert watch.finalizer is not None
        assert watch.finalizer.name.startswith("aws.ansible-operator.io/")


def test_crds_have_one_home() -> None:
    """`config/crd` refers to /crds, and /crds lists every definition there."""
    listed = yaml.safe_load((ROOT / "crds" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        path.name for path in (ROOT / "crds").glob("*.yaml") if path.name != "kustomization.yaml"
    )
    referring = yaml.safe_load((ROOT / "config" / "crd" / "kustomization.yaml").read_text())
    assert referring["resources"] == ["../../crds"]
    assert list((ROOT / "config" / "crd").glob("*.yaml")) == [ROOT / "config" / "crd" / "kustomization.yaml"]


def manifests(kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of *kind* that `config/` deploys, or can deploy, by name."""
    documents = [
        document
        for folder in ("default", "manager", "network-policy", "rbac")
        for name in yaml.safe_load((CONFIG / folder / "kustomization.yaml").read_text())["resources"]
        if name.endswith(".yaml")
        for document in yaml.safe_load_all((CONFIG / folder / name).read_text())
    ]
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


def deployed() -> Settings:
    """Return the settings that the manager's arguments make."""
    (container,) = manifests("Deployment")["controller-manager"]["spec"]["template"]["spec"]["containers"]
    context = run.make_context("run", list(container["args"]))
    values = {flag.name: context.params[flag.parameter] for flag in FLAGS}
    return configure(values, given=(), environ={}).settings


def granted(account: str) -> set[tuple[str, str, str]]:
    """Return what the roles bound to the service account *account* allow: group, resource and verb."""
    roles = {"ClusterRole": manifests("ClusterRole"), "Role": manifests("Role")}
    bindings = [*manifests("ClusterRoleBinding").values(), *manifests("RoleBinding").values()]
    return {
        (group, resource, verb)
        for binding in bindings
        if [subject["name"] for subject in binding["subjects"]] == [account]
        for rule in roles[binding["roleRef"]["kind"]][binding["roleRef"]["name"]]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_manager_elects_a_leader_and_guards_its_metrics() -> None:
    """The arguments are ones that `run` takes, and mean one leader, and metrics by TLS and RBAC."""
    settings = deployed()
    assert (settings.leader_election.enabled, settings.leader_election.id) == (True, "aws-operator")
    assert (settings.serving.metrics_secure, settings.serving.metrics_require_rbac) == (True, True)


def test_the_managers_account_may_do_what_its_arguments_need() -> None:
    """Leases and Events for the election, reviews for the metrics, and a Role of one namespace for Leases."""
    needed = {
        *(("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")),
        *(("", "events", verb) for verb in ("create", "patch")),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    (account,) = manifests("ServiceAccount")
    assert manifests("Deployment")["controller-manager"]["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert needed <= granted(account)
    (role,) = manifests("Role").values()
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"leases", "events"}


def test_the_metrics_service_reaches_the_manager() -> None:
    """Its selector finds the pod, and its ports lead to where the arguments and the probes say."""
    pod = manifests("Deployment")["controller-manager"]["spec"]["template"]
    (service,) = manifests("Service").values()
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["metadata"]["namespace"] == manifests("Deployment")["controller-manager"]["metadata"]["namespace"]
    serving = deployed().serving
    (target,) = (ports[port["targetPort"]] for port in service["spec"]["ports"])
    assert split_address(serving.metrics_bind_address) == ("", target)
    assert split_address(serving.health_probe_bind_address) == ("", ports["probes"])


def test_the_network_policy_is_about_the_manager() -> None:
    """It selects the deployment's pod in its namespace, lets in what the metrics' port is, and out what a run needs."""
    deployment = manifests("Deployment")["controller-manager"]
    (policy,) = manifests("NetworkPolicy").values()
    pod = deployment["spec"]["template"]
    assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (inward,) = policy["spec"]["ingress"]
    named = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {port["port"] for port in inward["ports"]} == {"metrics"} <= named
    out = {(port["protocol"], port["port"]) for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert out == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)}


@pytest.mark.parametrize("folder", ["default", "manager", "network-policy", "rbac"])
def test_kustomize_takes_every_manifest(folder: str) -> None:
    """A file that no kustomization names would never be deployed; `extra_rules.yaml` is an input of others."""
    listed = yaml.safe_load((CONFIG / folder / "kustomization.yaml").read_text())["resources"]
    there = {path.name for path in (CONFIG / folder).glob("*.yaml")} - {"kustomization.yaml", "extra_rules.yaml"}
    assert {name for name in listed if name.endswith(".yaml")} == there
