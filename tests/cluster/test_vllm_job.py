"""A job with `engine: VLLM` in a cluster: workers with vLLM on the CPU train it, and one of them is deleted.

vLLM's answers may differ in their last bits from those of another engine, and so may what is learnt from
them; what a journal says is always the same. The run is therefore compared with its own replay.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from dartes.errors import ExitCode

from .jobs import Job, spec_of, uid, until
from .reference import last_words
from .release import Release
from .test_images import idle_pod

WORKERS = 2
ITERATIONS = 15
LEAST_SOLVED = 0.4
"""The built-in model solves more than half of its problems; one that is served wrongly solves none."""


def vllm_spec() -> dict[str, Any]:
    """The built-in task, without evaluations; a volume that can follow to another node."""
    return spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=16,
        es__batchSize=64,
        evaluation={"sets": []},
        checkpoint={"volume": {"size": "64Mi", "storageClassName": "portable"}},
        workers__engine="VLLM",
        workers__replicas=WORKERS,
    )


def verifying_pod(job: Job, image: str) -> dict[str, Any]:
    """A pod that runs `dartes verify` on the folder that a job's coordinator left on its claim."""
    pod = idle_pod("verify", image, ("/tmp",))
    container = pod["spec"]["containers"][0]
    container["command"] = ["dartes", "verify", "/var/lib/dartes/run"]
    container["env"] = [{"name": "HOME", "value": "/tmp"}]
    container["volumeMounts"].append({"name": "run", "mountPath": "/var/lib/dartes"})
    claim = {"claimName": f"{job.name}-checkpoint"}
    pod["spec"]["volumes"].append({"name": "run", "persistentVolumeClaim": claim})
    pod["spec"]["restartPolicy"] = "Never"
    return pod


def verified(release: Release, job: Job, image: str) -> dict[str, str]:
    """What `dartes verify` finds in a complete run, by name; AssertionError where anything differs."""
    release.kubectl("create", "-n", job.namespace, "-f", "-", stdin=json.dumps(verifying_pod(job, image)))

    def ended() -> dict[str, Any] | None:
        (pod,) = (p for p in job.api.pods(job.namespace) if p["metadata"]["name"] == "verify")
        return pod if pod["status"].get("phase") in ("Succeeded", "Failed") else None

    pod = until(ended, "the end of dartes verify", 60)
    said = release.kubectl("logs", "verify", "-n", job.namespace)
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == ExitCode.DONE, said
    return dict(re.findall(r"^(.*\S) +([0-9a-f]{64})\b", said, re.MULTILINE))


def test_a_job_with_vllm_ends_with_the_weights_of_its_journal_though_a_worker_was_deleted(
    release: Release, images: Mapping[str, str], namespace: str
) -> None:
    job = Job.create(release.api, namespace, "vllm", vllm_spec())
    workers = job.wait_ready("worker", WORKERS)
    assert {pod["spec"]["containers"][0]["image"] for pod in workers} == {images["worker-vllm"]}
    for worker in workers:
        said = release.kubectl("logs", worker["metadata"]["name"], "-n", namespace)
        assert "master weights: host memory" in said
    rows = job.wait_rows(2)
    victim = workers[0]
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], namespace)
    until(lambda: uid(victim) not in {uid(p) for p in job.live("worker")}, "the end of the victim", 60)
    rows = job.wait_rows(len(rows) + 2)
    assert min(row["pass_rate"] for row in rows) > LEAST_SOLVED
    status = job.wait_complete()
    assert status["failures"]["worker"] == 0, "a deleted pod is a disruption and charges no budget"
    words = last_words(job)
    assert words["iteration"] == ITERATIONS
    found = verified(release, job, images["worker"])
    assert (found["weight digest"], found["journal hash"]) == (words["weightDigest"], words["journalHash"])
