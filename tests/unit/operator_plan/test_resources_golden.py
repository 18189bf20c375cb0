"""Every rendered object, whole, as the API server gets it.

`UPDATE_GOLDEN=1` writes the files anew; look at the difference before you keep it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dartes.spec import job_from_object
from dartes.spec.yaml_text import write_yaml
from dartes_operator.plan.validation import read_pinned
from dartes_operator.resources.claim import claim
from dartes_operator.resources.disruption_budget import disruption_budget
from dartes_operator.resources.identity import JobIdentity, Role, identity_of
from dartes_operator.resources.network_policy import network_policies
from dartes_operator.resources.pod import PodDefaults, instance
from dartes_operator.resources.run_config import Images, Run, read, render
from dartes_operator.resources.secrets import tls_metadata
from dartes_operator.resources.service import service

from .kit import job

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
IMAGES = Images("dartes/coordinator:1", "dartes/worker:1", "dartes/worker-vllm:1")
DEFAULTS = PodDefaults(pull_policy="IfNotPresent", pull_secrets=(), tolerations=(), node_selector={})

FULL: dict[str, Any] = {
    "queueName": "team",
    "priorityClassName": "high",
    "model": {
        "source": "hf://org/name",
        "secretRef": {"name": "hub"},
        "cache": {"emptyDir": {"sizeLimit": "20Gi"}},
    },
    "coordinator": {
        "image": "my/coordinator:7",
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}},
        "nodeSelector": {"pool": "cpu"},
        "annotations": {"karpenter.sh/do-not-disrupt": "true"},
    },
    "workers": {
        "replicas": 3,
        "gpusPerWorker": 2,
        "threads": 4,
        "runtimeClassName": "nvidia",
        "scaleDown": {"drainSeconds": 30},
        "resources": {"requests": {"memory": "32Gi"}},
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "schedulerName": "volcano",
        "serviceAccountName": "trainer",
        "labels": {"team": "blue"},
        "env": [{"name": "HF_ENDPOINT", "value": "https://mirror.example"}],
        "envFrom": [{"secretRef": {"name": "proxy"}}],
        "volumes": [{"name": "certs", "configMap": {"name": "ca"}}],
        "volumeMounts": [{"name": "certs", "mountPath": "/etc/ssl/own"}],
        "imagePullSecrets": [{"name": "registry"}],
        "podTemplate": {
            "metadata": {"annotations": {"mesh/inject": "false"}},
            "spec": {
                "hostname": "own",
                "containers": [
                    {"name": "worker", "env": [{"name": "EXTRA", "value": "1"}]},
                    {"name": "sidecar", "image": "log:1"},
                ],
            },
        },
    },
    "checkpoint": {
        "volume": {"size": "5Gi", "storageClassName": "fast", "accessMode": "ReadWriteOncePod"},
        "retentionPolicy": "Delete",
        "weights": {"everyIterations": 5, "destination": "pvc://snapshots/addition"},
    },
    "export": {"destination": "hf://org/trained", "secretRef": {"name": "hub-write"}, "iteration": "Best"},
    "networkPolicy": {"mode": "Strict"},
}
CLAIMS: dict[str, Any] = {
    "model": {"source": "pvc://models/base", "cache": {"claimName": "cache"}},
    "checkpoint": {"volume": {"claimName": "mine"}},
    "export": {"destination": "pvc://models/out", "iteration": 7},
}
IMAGE: dict[str, Any] = {"model": {"source": "hf://org/name", "cache": {"image": "models/name:1"}}}
OWN_REWARD: dict[str, Any] = {"kind": "python", "python": {"configMap": {"name": "rewards", "key": "a.py"}}}
SOURCES: dict[str, Any] = {
    "dataset": {
        "source": None,
        "maxProblems": None,
        "stages": [
            {"source": "pvc://problems/easy", "iterations": 5},
            {"source": "s3://bucket/hard", "secretRef": {"name": "s3"}, "epochs": 1, "task": OWN_REWARD},
        ],
    },
    "es": {"iterations": None},
    "task": {"kind": "preference", "options": {"rewardModel": "pvc://models/good", "costModel": "org/cost"}},
    "workers": {"envFrom": [{"secretRef": {"name": "more"}}]},
    "evaluation": {
        "sets": [
            {
                "name": "held-out",
                "dataset": {"source": "hf://datasets/org/name", "secretRef": {"name": "hub"}},
            }
        ],
        "holdouts": [{"name": "forgets", "dataset": {"source": "pvc://others/test"}, "task": OWN_REWARD}],
    },
}
VLLM: dict[str, Any] = {
    "workers": {"engine": "VLLM", "engineOptions": {"tensorParallelSize": 2}, "gpusPerWorker": 2},
}
CASES = {
    "plain": {},
    "full": FULL,
    "claims": CLAIMS,
    "model-image": IMAGE,
    "sources": SOURCES,
    "vllm": VLLM,
}


def _render(spec: Mapping[str, Any]) -> tuple[JobIdentity, Any, Run, dict[str, Any]]:
    manifest = job(**spec)
    identity, parsed = identity_of(manifest), job_from_object(manifest).job
    return (identity, parsed.spec, *render(identity, parsed, IMAGES, DEFAULTS))


def _check(name: str, found: Any) -> None:
    text = write_yaml(found)
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("case", CASES)
def test_pods_are_as_their_golden_files(case: str) -> None:
    identity, _, run, config_map = _render(CASES[case])
    for role in Role:
        if role.value in run.pods:
            pod = instance(
                run.template(role),
                name=identity.worker(0, 0) if role is Role.WORKER else f"{identity.name}-{role.value}",
                config_map=config_map["metadata"]["name"],
                template_hash=run.template_hash,
                authority="0123456789",
                worker_index=0 if role is Role.WORKER else None,
            )
            _check(f"{case}/{role.value}.yaml", pod)


@pytest.mark.parametrize("case", CASES)
def test_the_job_file_of_a_run_is_as_its_golden_file(case: str) -> None:
    _, _, run, _ = _render(CASES[case])
    path = GOLDEN / case / "job.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(run.job_text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == run.job_text


@pytest.mark.parametrize("case", ["plain", "full"])
def test_other_objects_are_as_their_golden_files(case: str) -> None:
    identity, spec, _, _ = _render(CASES[case])
    _check(f"{case}/service.yaml", service(identity))
    _check(f"{case}/claim.yaml", claim(identity, spec.checkpoint))
    _check(f"{case}/disruption-budget.yaml", disruption_budget(identity))
    _check(f"{case}/tls-secrets.yaml", tls_metadata(identity))
    for policy in network_policies(identity, spec.network_policy.mode, "dartes-system"):
        _check(f"{case}/network-policy-{policy['metadata']['name'].rsplit('-')[-1]}.yaml", policy)


@pytest.mark.parametrize("case", CASES)
def test_a_run_config_reads_back_as_the_run_that_was_rendered(case: str) -> None:
    _, spec, run, config_map = _render(CASES[case])
    assert read(config_map) == run
    pinned = read_pinned(run.job_text)
    assert pinned is not None
    assert pinned.spec.workers == spec.workers
    assert pinned.spec.export == spec.export
    assert config_map["immutable"] is True


def test_the_run_config_is_as_its_golden_file() -> None:
    _check("plain/run-config.yaml", _render({})[3])


def test_two_renderings_differ_in_name_where_anything_differs() -> None:
    names = {_render(CASES[case])[3]["metadata"]["name"] for case in CASES}
    assert len(names) == len(CASES)


def test_a_config_map_that_is_not_what_its_name_says_pins_nothing() -> None:
    config_map = _render({})[3]
    changed = {**config_map["data"], "images.json": "{}"}
    assert read({**config_map, "data": changed}) is None
    assert read({**config_map, "data": {}}) is None


@pytest.mark.parametrize("case", CASES)
def test_no_pod_may_do_more_than_the_restricted_level_allows(case: str) -> None:
    _, _, run, _ = _render(CASES[case])
    for pod in run.pods.values():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not any("hostPath" in volume for volume in spec["volumes"])
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
        assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("case", CASES)
def test_a_worker_never_holds_the_coordinators_key(case: str) -> None:
    _, _, run, _ = _render(CASES[case])
    for role in ("coordinator", "worker"):
        secrets = [v["secret"]["secretName"] for v in run.pods[role]["spec"]["volumes"] if "secret" in v]
        assert secrets == [f"addition-tls-{role}"]


def test_every_mount_has_its_volume_and_every_volume_one_name() -> None:
    for spec in CASES.values():
        for pod in _render(spec)[2].pods.values():
            names = [volume["name"] for volume in pod["spec"]["volumes"]]
            assert len(names) == len(set(names))
            for container in pod["spec"]["containers"]:
                mounts = container.get("volumeMounts", [])
                assert {mount["name"] for mount in mounts} <= set(names)
                assert len({mount["mountPath"] for mount in mounts}) == len(mounts)
