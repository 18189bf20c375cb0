"""What a worker's pod gets for the engine VLLM: its image, its GPUs, its folders, and shared memory."""

from typing import Any

import pytest

from dartes.spec import job_from_object
from dartes_operator.resources.identity import identity_of
from dartes_operator.resources.pod import PodDefaults
from dartes_operator.resources.run_config import Images, render

from .kit import job

IMAGES = Images("dartes/coordinator:1", "dartes/worker:1", "dartes/worker-vllm:1")
DEFAULTS = PodDefaults(pull_policy="IfNotPresent", pull_secrets=(), tolerations=(), node_selector={})


def pods(**workers: Any) -> Any:
    """The pods of a job whose `workers` are these, by role."""
    manifest = job(workers=workers)
    return render(identity_of(manifest), job_from_object(manifest).job, IMAGES, DEFAULTS)[0].pods


def container(pod: Any) -> dict[str, Any]:
    """A pod's only container, its environment as a map."""
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return {**found, "env": {entry["name"]: entry.get("value") for entry in found["env"]}}


def shared_memory(pod: Any) -> list[dict[str, Any]]:
    """The volumes at /dev/shm."""
    names = [mount["name"] for mount in container(pod)["volumeMounts"] if mount["mountPath"] == "/dev/shm"]
    return [volume for volume in pod["spec"]["volumes"] if volume["name"] in names]


def test_workers_and_export_have_the_image_with_vllm_unless_the_job_names_one() -> None:
    manifest = job(workers={"engine": "VLLM"}, export={"destination": "pvc://models/out"})
    found = render(identity_of(manifest), job_from_object(manifest).job, IMAGES, DEFAULTS)[0].pods
    images = {role: container(pod)["image"] for role, pod in found.items()}
    assert images == {
        "coordinator": "dartes/coordinator:1",
        "worker": "dartes/worker-vllm:1",
        "export": "dartes/worker-vllm:1",
    }
    assert container(pods(engine="VLLM", image="mine:1")["worker"])["image"] == "mine:1"
    assert container(pods()["worker"])["image"] == "dartes/worker:1"


@pytest.mark.parametrize("engine", ["VLLM", "Transformers"])
def test_vllm_is_told_to_keep_silent_and_to_write_into_the_pods_cache(engine: str) -> None:
    worker = container(pods(engine=engine)["worker"])
    silent = {name: worker["env"].get(name) for name in ("VLLM_NO_USAGE_STATS", "VLLM_DO_NOT_TRACK")}
    assert set(silent.values()) == ({"1"} if engine == "VLLM" else {None})
    folders = {name: worker["env"][name] for name in ("HOME", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT")}
    if engine == "VLLM":
        folders["VLLM_CONFIG_ROOT"] = worker["env"]["VLLM_CONFIG_ROOT"]
    assert all(path.startswith("/var/cache/dartes/") for path in folders.values())
    assert "/var/cache/dartes" in [mount["mountPath"] for mount in worker["volumeMounts"]]
    assert "HF_HUB_OFFLINE" not in worker["env"], "a model may come from the hub"


def test_a_worker_of_several_gpus_has_them_and_shared_memory_beyond_a_containers_64_mib() -> None:
    worker = pods(engine="VLLM", gpusPerWorker=2, engineOptions={"tensorParallelSize": 2})["worker"]
    assert container(worker)["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert [volume["emptyDir"] for volume in shared_memory(worker)] == [{"medium": "Memory"}]


def test_so_has_one_whose_processes_share_a_model_on_the_cpu() -> None:
    worker = pods(engine="VLLM", gpusPerWorker=0, engineOptions={"tensorParallelSize": 2})["worker"]
    assert "nvidia.com/gpu" not in container(worker)["resources"].get("limits", {})
    assert len(shared_memory(worker)) == 1


@pytest.mark.parametrize("engine", ["VLLM", "Transformers"])
def test_one_process_alone_needs_no_shared_memory(engine: str) -> None:
    assert shared_memory(pods(engine=engine, gpusPerWorker=1)["worker"]) == []
