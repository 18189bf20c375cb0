"""Why a job does not start, in the words of whoever holds it up."""

from typing import Any

import pytest

from .kit import Cluster, job, running


def _waiting() -> Cluster:
    cluster = Cluster(job(workers={"minReplicas": 2}))
    cluster.settle()
    cluster.start_pod("addition-coordinator")
    return cluster


def test_the_schedulers_words_are_shown() -> None:
    cluster = _waiting()
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    cluster.pod("addition-worker-0")["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    ]
    cluster.settle()
    condition = cluster.condition("WorkersReady")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == f"addition-worker-0: {words}"


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"]
)
def test_the_kubelets_words_about_an_image_are_shown(reason: str) -> None:
    cluster = _waiting()
    cluster.wait_pod("addition-worker-1", reason, "manifest unknown")
    cluster.settle()
    assert cluster.condition("WorkersReady")["reason"] == "ImagePullBackOff"
    assert cluster.condition("WorkersReady")["message"] == "addition-worker-1: manifest unknown"


def test_the_kubelets_two_wordings_of_one_image_are_one_write() -> None:
    cluster = _waiting()
    cluster.wait_pod("addition-worker-1", "ErrImagePull", "manifest unknown")
    cluster.settle()
    writes = cluster.status_writes
    for _ in range(3):
        cluster.wait_pod("addition-worker-1", "ImagePullBackOff", "Back-off pulling image")
        cluster.settle()
        cluster.wait_pod("addition-worker-1", "ErrImagePull", "manifest unknown")
        cluster.settle()
    assert cluster.status_writes == writes
    assert "manifest unknown" in cluster.condition("WorkersReady")["message"]


def test_a_missing_secret_is_said_and_heals() -> None:
    cluster = _waiting()
    cluster.wait_pod("addition-worker-0", "CreateContainerConfigError", 'secret "hub" not found')
    cluster.settle()
    assert cluster.condition("ResourcesReady")["reason"] == "SecretMissing"
    assert 'secret "hub" not found' in cluster.condition("ResourcesReady")["message"]
    cluster.start_all()
    cluster.start_pod("addition-worker-0")
    cluster.settle()
    assert cluster.condition("ResourcesReady")["status"] == "True"
    assert cluster.status["phase"] == "Running"


def _mounting(cluster: Cluster, name: str, **spec: Any) -> None:
    pod = cluster.pod(name)
    pod["spec"] = {**pod["spec"], "nodeName": "node-2", **spec}
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": cluster.now.isoformat()},
        {"type": "PodReadyToStartContainers", "status": "False"},
    ]
    pod["status"]["containerStatuses"] = [
        {"name": "coordinator", "state": {"waiting": {"reason": "ContainerCreating"}}}
    ]


def test_a_secret_volume_that_is_not_mounted_for_a_minute_may_be_missing() -> None:
    cluster = _waiting()
    _mounting(cluster, "addition-worker-0", volumes=[{"name": "x", "secret": {"secretName": "mine"}}])
    cluster.settle()
    assert cluster.condition("WorkersReady")["reason"] == "Initializing"
    cluster.pass_by(60)
    cluster.settle()
    assert cluster.condition("ResourcesReady")["reason"] == "SecretMissing"
    assert "Secret mine" in cluster.condition("ResourcesReady")["message"]


def test_a_volume_that_cannot_follow_is_said_to_be_detaching() -> None:
    cluster = running()
    cluster.disrupt("addition-coordinator")
    cluster.settle()
    _mounting(cluster, "addition-coordinator")
    cluster.pass_by(61)
    cluster.settle()
    assert cluster.condition("CoordinatorReady")["reason"] == "VolumeDetaching"
    assert cluster.status["phase"] == "Restarting"


def test_enough_workers_are_enough() -> None:
    cluster = running(workers={"replicas": 3, "minReplicas": 1})
    cluster.end_pod("addition-worker-2", 1)
    cluster.settle()
    assert cluster.condition("WorkersReady")["status"] == "True"
    assert cluster.status["phase"] == "Running"


def test_a_job_is_initializing_while_its_pods_start() -> None:
    cluster = _waiting()
    cluster.settle()
    assert cluster.status["phase"] == "Initializing"
    assert cluster.condition("WorkersReady")["reason"] == "Initializing"


def test_the_message_says_what_holds_a_job_up_and_is_empty_where_nothing_does() -> None:
    cluster = _waiting()
    cluster.wait_pod("addition-worker-1", "ErrImagePull", "manifest unknown")
    cluster.settle()
    assert cluster.status["message"] == "ImagePullBackOff: addition-worker-1: manifest unknown"
    assert running().status["message"] == ""
