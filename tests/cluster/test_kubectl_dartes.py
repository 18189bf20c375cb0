"""`kubectl dartes`, called by kubectl itself, on jobs that the operator runs: nothing here is a stand-in."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dartes.checkpoint import open_checkpoint

from .jobs import Job, spec_of
from .plugin import Plugin
from .reference import Reference, run_locally
from .release import Release

EXPORT_SECONDS = 180.0


@pytest.fixture
def plugin(release: Release, tmp_path: Path) -> Plugin:
    """The plugin, aimed at the cluster of the tests."""
    return Plugin(release.cluster, tmp_path / "bin")


@pytest.fixture(scope="module")
def finished_job(release: Release, module_namespace: str) -> Job:
    """A job that has ended well."""
    job = Job.create(release.api, module_namespace, "done", spec_of(es__iterations=4))
    job.wait_complete()
    return job


@pytest.fixture(scope="module")
def running_job(release: Release, module_namespace: str, finished_job: Job) -> Iterator[Job]:
    """A job that goes on for as long as it is asked."""
    spec = spec_of(es__iterations=100_000, es__populationSize=4, es__batchSize=16, evaluation={"sets": []})
    job = Job.create(release.api, module_namespace, "going", spec)
    job.wait_rows(2)
    yield job
    job.delete()


@pytest.fixture(scope="module")
def undisturbed(finished_job: Job, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The finished job run on this machine."""
    spec = spec_of(es__iterations=4)
    job = {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "metadata": {"name": "done"},
        "spec": spec,
    }
    return run_locally(job, tmp_path_factory.mktemp("local") / "done")


def digest_of(model: Path) -> str:
    """The weight digest that an exported model carries."""
    return str(json.loads((model / "dartes.json").read_text(encoding="utf-8"))["weight_digest"])


def test_a_finished_job_gives_the_model_of_the_local_run_and_leaves_no_pod(
    plugin: Plugin, finished_job: Job, undisturbed: Reference, tmp_path: Path
) -> None:
    job = finished_job
    said = plugin(
        "export", job.name, "-n", job.namespace, "--output", str(tmp_path / "model"), seconds=EXPORT_SECONDS
    )
    assert digest_of(tmp_path / "model") == undisturbed.weight_digest
    assert undisturbed.weight_digest in said
    assert open_checkpoint(tmp_path / "model").trainable
    left = [pod for pod in job.pods("reader") if not pod["metadata"].get("deletionTimestamp")]
    assert not left


def test_a_model_built_in_the_cluster_is_the_same_file_by_file(
    plugin: Plugin, finished_job: Job, tmp_path: Path
) -> None:
    job = finished_job
    for name, options in (("here", []), ("there", ["--remote"])):
        plugin(
            "export", job.name, "-n", job.namespace, "--output", str(tmp_path / name), *options,
            seconds=EXPORT_SECONDS,
        )  # fmt: skip
    here = {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    there = {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()}
    assert here == there


def test_a_running_job_is_exported_without_being_disturbed(
    plugin: Plugin, running_job: Job, tmp_path: Path
) -> None:
    job = running_job
    before = job.live("coordinator")[0]["metadata"]["uid"]
    plugin(
        "export", job.name, "-n", job.namespace, "--output", str(tmp_path / "m"), "--iteration", "2",
        seconds=EXPORT_SECONDS,
    )  # fmt: skip
    assert json.loads((tmp_path / "m" / "dartes.json").read_text())["iteration"] == 2
    assert job.live("coordinator")[0]["metadata"]["uid"] == before
    assert not job.pods("reader")
    job.wait_rows(len(job.rows()) + 1)


def test_the_status_of_a_finished_job_says_how_to_get_the_model(plugin: Plugin, finished_job: Job) -> None:
    job = finished_job
    said = plugin("status", job.name, "-n", job.namespace)
    assert said.startswith(f"{job.name} in {job.namespace}: Succeeded after ")
    assert "4 of 4 iterations" in said
    assert f"kubectl dartes export {job.name} --output MODEL_DIR" in said
    assert "not as it should be" not in said
    view = json.loads(plugin("status", job.name, "-n", job.namespace, "--json"))
    assert view["phase"] == "Succeeded"
    assert view["iteration"] == 4
    watched = plugin("status", job.name, "-n", job.namespace, "--watch")
    assert watched.startswith(f"{job.name} in {job.namespace}: Succeeded"), "watching ends with the job"


def test_the_status_of_a_running_job_shows_its_pods_ready(plugin: Plugin, running_job: Job) -> None:
    job = running_job
    job.wait_condition("WorkersReady")
    view = json.loads(plugin("status", job.name, "-n", job.namespace, "--json"))
    assert view["phase"] == "Running"
    assert view["workers"]["ready"] >= 1
    assert {pod["role"] for pod in view["pods"] if pod["ready"]} == {"coordinator", "worker"}
    assert view["events"], "the operator's events on the job"


def test_a_pod_that_finds_no_node_is_told_in_the_schedulers_words(
    plugin: Plugin, release: Release, module_namespace: str
) -> None:
    spec = spec_of()
    spec["workers"]["nodeSelector"] = {"dartes.dev/test": "nowhere"}
    job = Job.create(release.api, module_namespace, "stuck", spec)
    try:
        job.wait_condition("WorkersReady", "False", "Unschedulable")
        said = plugin("status", job.name, "-n", job.namespace)
        assert "WorkersReady is False" in said
        assert "nodes are available" in said
        assert "Unschedulable: give the cluster a node" in said
    finally:
        job.delete()


def test_logs_are_readable_and_raw_ones_are_json(plugin: Plugin, running_job: Job) -> None:
    job = running_job
    name = job.live("coordinator")[0]["metadata"]["name"]
    readable = plugin("logs", job.name, "-n", job.namespace).splitlines()
    assert any(f" INFO {name} incarnation 1 listens" in line for line in readable)
    raw = plugin("logs", job.name, "-n", job.namespace, "--raw", "--tail", "2").splitlines()
    assert len(raw) <= 2
    assert all(json.loads(line)["job"] == job.name for line in raw)
    everyone = plugin("logs", job.name, "-n", job.namespace, "--all")
    assert f" INFO {name} incarnation 1 listens" in everyone
    assert name not in plugin("logs", job.name, "-n", job.namespace, "--worker", "0"), (
        "a worker's log is its own"
    )
    assert "no failed pod of worker 0" in plugin(
        "logs", job.name, "-n", job.namespace, "--worker", "0", "--previous", code=64
    )


def test_a_job_that_does_not_exist_is_the_users_mistake(plugin: Plugin, module_namespace: str) -> None:
    for words in (["status"], ["logs"], ["export", "--output", "nowhere"]):
        said = plugin(words[0], "nope", "-n", module_namespace, *words[1:], code=64)
        assert f"no DartESJob 'nope' in namespace '{module_namespace}'" in said
