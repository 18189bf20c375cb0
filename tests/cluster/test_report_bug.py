"""`kubectl dartes report-bug` on a job that does not get its workers: what is in it, and what is not."""

import base64
import json
import tarfile
from pathlib import Path

import pytest

from dartes.cli.kube.redact import REMOVED

from .held import HeldCluster
from .jobs import Job, spec_of
from .plugin import Plugin
from .release import Release
from .releases import Releases

pytestmark = pytest.mark.usefixtures("alone")

IN_THE_SPEC = "tulip-marigold-17"
IN_A_SECRET = "hyacinth-clover-23"


@pytest.fixture(scope="module")
def release(releases: Releases, module_namespace: str) -> Release:
    """An operator of the module's own, and the roles with which people may read jobs."""
    return releases(module_namespace, options=("--set=rbac.aggregate=true",))


@pytest.fixture(scope="module")
def stuck(release: Release, module_namespace: str) -> Job:
    """A job whose coordinator runs and whose worker finds no node; secrets are in its environment."""
    release.kubectl(
        *("create", "secret", "generic", "planted", "-n", module_namespace),
        f"--from-literal=token={IN_A_SECRET}",
    )
    spec = spec_of(checkpoint__retentionPolicy="Delete")
    spec["workers"]["nodeSelector"] = {"dartes.dev/test": "nowhere"}
    spec["coordinator"] = {
        "env": [
            {"name": "API_TOKEN", "value": IN_THE_SPEC},
            {"name": "OTHER_TOKEN", "valueFrom": {"secretKeyRef": {"name": "planted", "key": "token"}}},
        ]
    }
    job = Job.create(release.api, module_namespace, "stuck", spec)
    job.wait_condition("CoordinatorReady")
    job.wait_condition("WorkersReady", "False", "Unschedulable")
    return job


def files_of(archive: Path) -> dict[str, str]:
    """Every file of an archive by its path in the report's folder."""
    with tarfile.open(archive) as tar:
        read = {member.name.removeprefix("dartes-report/"): tar.extractfile(member) for member in tar}
        return {name: file.read().decode() for name, file in read.items() if file}


def no_secret_in(files: dict[str, str]) -> None:
    """AssertionError where a planted secret or a key of the job's is in a file."""
    for planted in (IN_THE_SPEC, IN_A_SECRET, "PRIVATE KEY"):
        for spelt in (planted, base64.b64encode(planted.encode()).decode()):
            assert [name for name, text in files.items() if spelt in text] == []


def test_a_report_of_a_stuck_job_holds_what_is_needed_and_no_secret(
    release: Release, stuck: Job, cluster: HeldCluster, tmp_path: Path
) -> None:
    archive = tmp_path / "report.tar.gz"
    said = Plugin(cluster, tmp_path / "bin")(
        *("report-bug", stuck.name, "-n", stuck.namespace, "-o", str(archive)),
        *("--operator-namespace", release.namespace),
    )
    assert str(archive) in said
    files = files_of(archive)
    assert files["left-out.txt"] == ""
    no_secret_in(files)
    (pinned,) = json.loads(files["jobs/stuck/configmaps.json"])
    assert REMOVED in json.dumps(pinned["data"]["job.yaml"]["spec"]["coordinator"]["env"])
    assert "nodes are available" in files["jobs/stuck/status.txt"]
    assert "FailedScheduling" in files["jobs/stuck/events.json"]
    assert " listens" in files["jobs/stuck/logs/stuck-coordinator.coordinator.log"]
    assert "dartes_coordinator_incarnation 1.0" in files["jobs/stuck/metrics/stuck-coordinator.txt"]
    pod = release.operator_pod()["metadata"]["name"]
    folder = f"operator/{release.namespace}"
    assert stuck.name in files[f"{folder}/logs/{pod}.operator.log"]
    assert 'dartes_jobs{phase="Running"}' in files[f"{folder}/metrics/{pod}.txt"]
    assert json.loads(files["versions.json"])["cluster"].startswith("v1.")
    assert len(json.loads(files["cluster/nodes.json"])) >= 1


def test_who_may_only_read_jobs_gets_a_report_that_says_what_is_not_in_it(
    stuck: Job, cluster: HeldCluster, tmp_path: Path
) -> None:
    kubeconfig = reader(cluster, stuck.namespace, tmp_path / "kubeconfig")
    archive = tmp_path / "report.tar.gz"
    Plugin(cluster, tmp_path / "bin", kubeconfig)(
        "report-bug", stuck.name, "-n", stuck.namespace, "-o", str(archive)
    )
    files = files_of(archive)
    no_secret_in(files)
    assert " listens" in files["jobs/stuck/logs/stuck-coordinator.coordinator.log"]
    lines = files["left-out.txt"].splitlines()
    missing = [line.partition(":")[0] for line in lines]
    assert "nodes" in missing
    assert "metrics of stuck-coordinator" in missing, "the role view has no right to a pod's proxy"
    assert any(line.startswith("the operator's pods") and "forbidden" in line for line in lines)


def reader(cluster: HeldCluster, namespace: str, path: Path) -> Path:
    """A kubeconfig of an account with the built-in role `view` in one namespace."""
    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    cluster.kubectl(
        *("create", "rolebinding", "reader", "-n", namespace),
        *("--clusterrole=view", f"--serviceaccount={namespace}:reader"),
    )
    token = cluster.kubectl("create", "token", "reader", "-n", namespace).strip()
    found = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    found["users"] = [{"name": "reader", "user": {"token": token}}]
    found["contexts"][0]["context"]["user"] = "reader"
    path.write_text(json.dumps(found))
    path.chmod(0o600)
    return path
