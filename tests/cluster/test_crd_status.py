"""What the definition keeps of a status, what `kubectl get` and `kubectl scale` make of it."""

import pytest
from kubernetes.client.exceptions import ApiException

from .held import HeldCluster
from .stored_jobs import SMALL, Jobs, Object, apply_definition, with_fields

STATUS: Object = {
    "observedGeneration": 1,
    "phase": "Running",
    "message": "training",
    "conditions": [
        {
            "type": "Accepted",
            "status": "True",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "Accepted",
            "message": "",
        }
    ],
    "startTime": "2026-01-01T00:00:00Z",
    "lastResumeTime": "2026-01-01T00:00:00Z",
    "runId": "5f0c1c4e",
    "images": {"coordinator": "a:1", "worker": "b:1"},
    "templateHash": "0123456789",
    "coordinator": {"podName": "x-coordinator", "incarnation": 2, "ready": True, "restarts": 1},
    "workers": {
        **{"replicas": 2, "ready": 1, "caughtUp": 1, "pending": 1, "draining": 0, "desired": 2},
        "selector": "dartes.dev/job-name=x,dartes.dev/role=worker",
    },
    "failures": {
        **{"coordinator": 1, "worker": 2, "disruptions": 3, "export": 0, "workerSince": 10},
        "counted": ["5f0c1c4e-1111-2222-3333-444455556666"],
    },
    "lastFailure": {
        **{"pod": "x-worker-0", "role": "worker", "reason": "OOMKilled", "exitCode": 137, "message": "m"},
        **{"time": "2026-01-01T00:00:00Z", "counted": True},
    },
    "progress": {
        **{"iteration": 3, "totalIterations": 20, "epoch": 1, "estimatedRemainingSeconds": 12.5},
        **{"lastIterationSeconds": 0.5, "trainPassRate": 0.125, "evalAccuracy": 0.9, "replayBufferSize": 4},
        "lastUpdateTime": "2026-01-01T00:00:00Z",
    },
    "checkpoint": {
        **{"claimName": "x-checkpoint", "lastIteration": 3, "lastTime": "2026-01-01T00:00:00Z"},
        **{"digest": "ab", "journalHash": "cd"},
    },
    "export": {"uri": "pvc://a/b", "time": "2026-01-01T00:00:00Z", "digest": "ab"},
}


@pytest.fixture(scope="module")
def jobs(cluster: HeldCluster, module_namespace: str) -> Jobs:
    """The jobs of a namespace of a cluster that has the present definition."""
    apply_definition(cluster.client)
    return Jobs(cluster.client, module_namespace)


def test_a_full_status_is_kept_as_it_was_written(jobs: Jobs) -> None:
    jobs.create(SMALL, "status", dry=False)
    assert jobs.patch_status("status", STATUS)["status"] == STATUS
    assert jobs.get("status")["status"] == STATUS


def test_kubectl_get_shows_how_far_a_job_is(jobs: Jobs) -> None:
    jobs.create(with_fields(SMALL, {"queueName": "gpu"}), "shown", dry=False)
    jobs.patch_status("shown", STATUS)
    table = jobs.table("shown")
    cells = {name: cell for name, (cell, priority) in table.items() if not priority}
    del cells["Age"]
    assert cells == {
        **{"Name": "shown", "Phase": "Running", "Iter": 3, "Total": 20, "Workers": 1, "Desired": 2},
        "PassRate": 0.125,
    }
    assert {name: cell for name, (cell, priority) in table.items() if priority} == {
        **{"Queue": "gpu", "Incarnation": 2, "Restarts": 1, "Disruptions": 3, "Message": "training"}
    }


def test_a_write_of_the_spec_leaves_the_status_and_the_other_way_round(jobs: Jobs) -> None:
    jobs.create(SMALL, "apart", dry=False)
    jobs.patch_status("apart", {**STATUS, "spec": {"suspend": True}})
    after = jobs.patch("apart", {"suspend": True}, dry=False)
    assert (after["status"]["phase"], after["metadata"]["generation"]) == ("Running", 2)
    jobs.patch_status("apart", {"phase": "Suspended"})
    assert jobs.get("apart")["metadata"]["generation"] == 2


def test_scaling_sets_the_wanted_workers_and_tells_autoscalers_which_pods_there_are(jobs: Jobs) -> None:
    jobs.create(SMALL, "scaled", dry=False)
    jobs.patch_status("scaled", STATUS)
    scale = jobs.scale("scaled", 4)
    assert scale["spec"]["replicas"] == 4
    assert scale["status"] == {"replicas": 2, "selector": STATUS["workers"]["selector"]}
    assert jobs.get("scaled")["spec"]["workers"]["replicas"] == 4
    with pytest.raises(ApiException) as raised:
        jobs.scale("scaled", 2000)
    assert "should be less than or equal to 1024" in raised.value.body
