"""What a job reads from elsewhere reaches the pods that read it, and no other."""

from typing import Any

import pytest

from dartes_operator.resources.identity import Role

from .guard_kit import refused, rendered

STAGES = [
    {"source": "pvc://one/easy", "iterations": 1},
    {"source": "s3://bucket/hard", "iterations": 1, "secretRef": {"name": "s3"}},
]
OF_STAGES: dict[str, Any] = {
    "dataset": {"source": None, "maxProblems": None, "stages": STAGES},
    "es": {"iterations": None},
}


def _python(name: str) -> dict[str, Any]:
    return {"kind": "python", "options": {}, "python": {"configMap": {"name": name}}}


def _held_out(source: str, **fields: Any) -> dict[str, Any]:
    return {"name": "held-out", "dataset": {"source": source}, **fields}


def _mounts(role: Role, **spec: Any) -> dict[str, dict[str, Any]]:
    """What a role's container mounts, by path, each with its volume's source."""
    pod = rendered(**spec).template(role)["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return {
        mount["mountPath"]: {**volumes[mount["name"]], "readOnly": mount.get("readOnly", False)}
        for mount in pod["containers"][0]["volumeMounts"]
    }


def _environment(role: Role, **spec: Any) -> dict[str, str]:
    """The Secret behind HF_TOKEN, and those whose keys are all in the environment, joined."""
    container = rendered(**spec).template(role)["spec"]["containers"][0]
    secrets = {
        entry["name"]: entry["valueFrom"]["secretKeyRef"]["name"]
        for entry in container["env"]
        if "secretKeyRef" in entry.get("valueFrom", {})
    }
    whole = ", ".join(entry["secretRef"]["name"] for entry in container.get("envFrom", ()))
    return {**secrets, "envFrom": whole}


@pytest.mark.parametrize(
    "spec",
    [
        {"dataset": {"source": "pvc://one/train"}},
        OF_STAGES,
        {"dataset": {"source": None, "mix": [{"source": "x.jsonl"}, {"source": "pvc://one/b"}]}},
        {"evaluation": {"sets": [_held_out("pvc://one/test")]}},
        {"evaluation": {"holdouts": [_held_out("pvc://one/test")]}},
    ],
    ids=["plain", "stage", "mix", "set", "holdout"],
)
@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.WORKER])
def test_a_claim_with_problems_is_mounted_for_reading_wherever_it_is_named(
    spec: dict[str, Any], role: Role
) -> None:
    mount = _mounts(role, **spec)["/mnt/dartes/pvc/one"]
    assert (mount["persistentVolumeClaim"], mount["readOnly"]) == ({"claimName": "one"}, True)


@pytest.mark.parametrize(
    "spec",
    [
        {"task": _python("rewards")},
        {
            **OF_STAGES,
            "dataset": {
                "source": None,
                "maxProblems": None,
                "stages": [{**STAGES[0], "task": _python("rewards")}],
            },
        },
        {"dataset": {"source": None, "mix": [{"source": "x.jsonl", "task": _python("rewards")}]}},
        {"evaluation": {"sets": [_held_out("x.jsonl", task=_python("rewards"))]}},
        {"evaluation": {"holdouts": [_held_out("x.jsonl", task=_python("rewards"))]}},
    ],
    ids=["job", "stage", "mix", "set", "holdout"],
)
def test_a_reward_function_of_a_config_map_is_in_worker_pods_alone(spec: dict[str, Any]) -> None:
    mount = _mounts(Role.WORKER, **spec)["/etc/dartes/reward/rewards"]
    assert (mount["configMap"], mount["readOnly"]) == ({"name": "rewards"}, True)
    assert "/etc/dartes/reward/rewards" not in _mounts(Role.COORDINATOR, **spec)


def test_two_tasks_share_the_mount_of_one_config_map() -> None:
    both = {"task": _python("b"), "evaluation": {"sets": [_held_out("x.jsonl", task=_python("a"))]}}
    again = {**both, "evaluation": {"sets": [_held_out("x.jsonl", task=_python("b"))]}}
    folder = "/etc/dartes/reward"
    assert [path for path in _mounts(Role.WORKER, **both) if folder in path] == [f"{folder}/a", f"{folder}/b"]
    assert [path for path in _mounts(Role.WORKER, **again) if folder in path] == [f"{folder}/b"]


def test_reward_models_on_claims_are_mounted_in_worker_pods_alone() -> None:
    task = {
        "kind": "preference",
        "options": {"rewardModel": "pvc://good/model", "costModel": "pvc://cost/model"},
    }
    wanted = {"/mnt/dartes/pvc/good", "/mnt/dartes/pvc/cost"}
    assert wanted <= set(_mounts(Role.WORKER, task=task))
    assert not wanted & set(_mounts(Role.COORDINATOR, task=task))


@pytest.mark.parametrize("model", ["http://reward.example/score", "org/name", "hf://org/name", "/models/x"])
def test_other_reward_models_need_no_mount(model: str) -> None:
    task = {"kind": "instruction", "options": {"rewardModel": model}}
    assert set(_mounts(Role.WORKER, task=task)) == set(_mounts(Role.WORKER))


@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.WORKER])
def test_the_hubs_token_is_one_key_and_storage_takes_the_whole_secret(role: Role) -> None:
    hub = _held_out("hf://datasets/org/name")
    hub["dataset"]["secretRef"] = {"name": "hub"}
    spec = {**OF_STAGES, "evaluation": {"holdouts": [hub]}}
    assert _environment(role, **spec) == {"HF_TOKEN": "hub", "envFrom": "s3"}


def test_what_the_user_puts_into_the_environment_comes_last_and_so_wins() -> None:
    spec = {**OF_STAGES, "workers": {"envFrom": [{"secretRef": {"name": "own"}}]}}
    assert _environment(Role.WORKER, **spec)["envFrom"] == "s3, own"


def test_the_models_token_is_not_for_the_coordinator() -> None:
    spec: dict[str, Any] = {"model": {"source": "hf://org/name", "secretRef": {"name": "hub"}}}
    assert _environment(Role.COORDINATOR, **spec) == {"envFrom": ""}
    assert _environment(Role.WORKER, **spec) == {"HF_TOKEN": "hub", "envFrom": ""}


def test_two_secrets_for_one_kind_of_place_are_refused_since_a_pod_has_one() -> None:
    data = {"source": "hf://datasets/org/name", "secretRef": {"name": "data"}}
    (found,) = refused(
        model={"source": "hf://org/name", "secretRef": {"name": "hub"}},
        dataset=data,
    )
    assert found.startswith("spec.dataset.secretRef.name: data is not hub, which spec.model.secretRef.name")
    stages = [
        {**stage, "source": "s3://b/c", "secretRef": {"name": f"s{i}"}} for i, stage in enumerate(STAGES)
    ]
    (found,) = refused(**{**OF_STAGES, "dataset": {**OF_STAGES["dataset"], "stages": stages}})
    assert found.startswith("spec.dataset.stages[1].secretRef.name: s1 is not s0")


def test_one_secret_for_several_places_and_one_for_each_kind_are_fine() -> None:
    places = ("s3://b/c", "s3://b/d", "gs://b/c", "hf://datasets/org/name")
    secrets = ("s3", "s3", "gs", "hub")
    mix = [{"source": s, "secretRef": {"name": n}} for s, n in zip(places, secrets, strict=True)]
    spec: dict[str, Any] = {"dataset": {"source": None, "mix": mix}}
    assert refused(**spec) == ()
    assert _environment(Role.WORKER, **spec) == {"HF_TOKEN": "hub", "envFrom": "gs, s3"}


@pytest.mark.parametrize("where", ["sets", "holdouts"])
def test_no_held_out_set_is_fetched_with_the_credentials_of_a_jobs_pods(where: str) -> None:
    entry = _held_out("s3://b/c")
    entry["dataset"]["secretRef"] = {"name": "another-tls-worker"}
    (found,) = refused(evaluation={where: [entry]})
    assert found.startswith(f"spec.evaluation.{where}[0].dataset.secretRef.name: another-tls-worker is not")
