"""What a job's pods hold opens no other job's coordinator, no API server and no node: tried by exec."""

import json
from collections.abc import Iterator

import pytest

from .jobs import Job, spec_of
from .release import Release

DIAL = """
import sys, grpc
from pathlib import Path
from dartes.rpc import tls
from dartes.rpc.channel import open_channel
from dartes.v1 import control_pb2, control_pb2_grpc, population_pb2, population_pb2_grpc
channel = open_channel(sys.argv[1], tls.load(Path("/etc/dartes/tls")))
call = (
    control_pb2_grpc.ControlServiceStub(channel).Status, control_pb2.StatusRequest()
) if sys.argv[2] == "status" else (
    population_pb2_grpc.PopulationServiceStub(channel).Updates, population_pb2.UpdatesRequest()
)
try:
    call[0](call[1], timeout=5)
    print("ANSWERED")
except grpc.RpcError as error:
    print(error.code().name)
"""


@pytest.fixture(scope="module")
def jobs(release: Release, module_namespace: str) -> Iterator[dict[str, Job]]:
    """Two jobs that run side by side for as long as they are asked."""
    spec = spec_of(es__iterations=100_000, es__populationSize=4, es__batchSize=16, evaluation={"sets": []})
    spec["workers"]["replicas"] = 1
    jobs = {name: Job.create(release.api, module_namespace, name, spec) for name in ("mine", "theirs")}
    for job in jobs.values():
        job.wait_ready("worker", 1)
    yield jobs
    for job in jobs.values():
        job.delete()


def dial(job: Job, target: Job, call: str) -> str:
    """What a worker of `job` gets from the coordinator of `target`."""
    pod = job.live("worker")[0]["metadata"]["name"]
    address = f"{target.name}-coordinator.{target.namespace}.svc:7443"
    said = job.api.execute(job.namespace, pod, "worker", "python", "-c", DIAL, address, call)
    return said.split()[-1]  # before it, gRPC may say why a handshake failed


def test_a_worker_is_heard_by_its_own_coordinator_only(jobs: dict[str, Job]) -> None:
    mine, theirs = jobs["mine"], jobs["theirs"]
    # A refusal by the service (not by TLS) proves that the connection itself stands.
    assert dial(mine, mine, "updates") in ("ANSWERED", "FAILED_PRECONDITION", "INVALID_ARGUMENT", "ABORTED")
    assert dial(mine, theirs, "updates") == "UNAVAILABLE"


def test_a_worker_may_not_ask_what_the_operator_asks(jobs: dict[str, Job]) -> None:
    assert dial(jobs["mine"], jobs["mine"], "status") == "PERMISSION_DENIED"


@pytest.mark.parametrize("role", ["coordinator", "worker"])
def test_no_pod_holds_a_token_or_a_key_of_another_role(jobs: dict[str, Job], role: str) -> None:
    job = jobs["mine"]
    pod = job.live(role)[0]
    assert pod["spec"]["automountServiceAccountToken"] is False
    sources = json.dumps(pod["spec"]["volumes"])
    assert "serviceAccountToken" not in sources
    assert "hostPath" not in sources
    other = "worker" if role == "coordinator" else "coordinator"
    assert f"-tls-{role}" in sources
    assert f"-tls-{other}" not in sources
    assert "-tls-operator" not in sources
    found = job.api.execute(
        job.namespace, pod["metadata"]["name"], role, "python", "-c",
        "import os; print(os.path.exists('/var/run/secrets/kubernetes.io'), os.getuid())",
    )  # fmt: skip
    assert found.split() == ["False", "65532"]


@pytest.mark.parametrize("role", ["coordinator", "worker"])
def test_the_api_server_answers_no_pod(jobs: dict[str, Job], role: str) -> None:
    job = jobs["mine"]
    pod = job.live(role)[0]["metadata"]["name"]
    ask = (
        "import ssl, urllib.request, urllib.error\n"
        "try:\n"
        "    print(urllib.request.urlopen('https://kubernetes.default.svc/api/v1/namespaces/"
        f"{job.namespace}/secrets', context=ssl._create_unverified_context(), timeout=5).status)\n"
        "except urllib.error.HTTPError as error:\n"
        "    print(error.code)\n"
    )
    assert job.api.execute(job.namespace, pod, role, "python", "-c", ask).strip() in ("401", "403")


def test_the_root_file_system_of_a_worker_is_read_only(jobs: dict[str, Job]) -> None:
    job = jobs["mine"]
    pod = job.live("worker")[0]["metadata"]["name"]
    tried = job.api.execute(job.namespace, pod, "worker", "sh", "-c", "touch /opt/dartes/x /etc/x; true")
    assert tried.count("Read-only file system") == 2
