"""A job from its creation to its end, and what pins a run."""

import json
from dataclasses import replace

import pytest

from dartes_operator.plan import pinning
from dartes_operator.plan.finish import FAREWELL_SECONDS
from dartes_operator.plan.plan import plan
from dartes_operator.plan.types import Apply, Create, IssueCertificates, Trouble
from dartes_operator.resources.run_config import hash_of

from .kit import DEFAULTS, FINAL_WORDS, START, UID, Cluster, job, running


def test_the_first_plan_makes_everything_without_reading_anything() -> None:
    cluster = Cluster(job(workers={"replicas": 4}))
    found = plan(cluster.job, cluster.observe(), cluster.now, cluster.defaults)
    made = [
        f"{action.manifest['kind']}/{action.manifest['metadata']['name']}"
        for action in found.actions
        if isinstance(action, Create | Apply)
    ]
    assert made[:2] == ["PersistentVolumeClaim/addition-checkpoint", "Service/addition-coordinator"]
    assert made[2].startswith("ConfigMap/addition-run-")
    assert made[3:] == [
        "NetworkPolicy/addition-coordinator",
        "NetworkPolicy/addition-worker",
        "Pod/addition-coordinator",
        *(f"Pod/addition-worker-{index}" for index in range(4)),
    ]
    issue = next(action for action in found.actions if isinstance(action, IssueCertificates))
    assert set(issue.metadata) == {"coordinator", "worker", "operator"}
    assert "addition-coordinator.lab.svc" in issue.dns_names
    assert not found.status_first


def test_a_job_of_five_pods_runs_within_its_budget_of_requests() -> None:
    cluster = Cluster(job(workers={"replicas": 4}))
    cluster.settle()
    cluster.pass_by(2)
    for name in sorted(cluster.pods()):
        cluster.start_pod(name, ready=False)
        cluster.step()
    for name in sorted(cluster.pods()):
        cluster.start_pod(name)
        cluster.step()
    assert cluster.status["phase"] == "Running"
    assert cluster.requests <= 30


def test_a_further_worker_costs_little_more_than_its_own_request() -> None:
    costs = []
    for workers in (4, 104):
        cluster = Cluster(job(workers={"replicas": workers}, es={"populationSize": 200}))
        cluster.settle()
        cluster.start_all()
        cluster.settle()
        assert cluster.status["phase"] == "Running"
        costs.append(cluster.requests)
    assert (costs[1] - costs[0]) / 100 <= 1.2


def test_start_time_is_written_with_the_first_pods() -> None:
    cluster = Cluster()
    cluster.step()
    assert cluster.status["startTime"] == "2026-03-01T12:00:00Z"
    assert cluster.status["runId"] == UID[:8]
    assert cluster.condition("Accepted")["status"] == "True"


def test_pods_carry_the_mark_of_their_authority_and_the_hash_of_their_run() -> None:
    cluster = running()
    for pod in cluster.pods().values():
        annotations = pod["metadata"]["annotations"]
        assert annotations["dartes.dev/authority"] == cluster.secrets["worker"]
        assert annotations["dartes.dev/template-hash"] == cluster.status["templateHash"]
        run = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "run")
        assert run["configMap"]["name"] == f"addition-run-{cluster.status['templateHash']}"


def test_a_finished_job_keeps_its_ended_pods_and_its_last_words() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    cluster.pass_by(FAREWELL_SECONDS)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"
    assert cluster.status["progress"]["evalAccuracy"] == 0.97
    assert cluster.status["checkpoint"]["digest"] == "bb"
    assert list(cluster.pods()) == ["addition-coordinator"]
    assert cluster.event_reasons()[-2:] == ["Completed", "RetainedVolume"]


def test_a_lost_pod_object_of_a_finished_job_is_not_made_again() -> None:
    cluster = running()
    cluster.end_pod("addition-coordinator", 0, message=FINAL_WORDS)
    cluster.settle()
    for name in list(cluster.pods()):
        cluster.vanish(name)
    cluster.settle()
    assert not cluster.pods()
    assert cluster.status["phase"] == "Succeeded"


def test_another_controllers_job_is_left_alone() -> None:
    for cluster in (Cluster(job(managedBy="kueue.x-k8s.io/multikueue")), Cluster()):
        if "managedBy" not in cluster.job["spec"]:
            cluster.job["metadata"]["annotations"] = {"dartes.dev/reconcile": "disabled"}
        found = cluster.plan()
        assert (found.actions, found.events, found.status) == ((), (), {})


def test_a_job_that_is_being_deleted_is_left_to_the_api_server() -> None:
    cluster = running()
    cluster.job["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:05Z"
    cluster.vanish("addition-coordinator")
    assert cluster.plan().actions == ()


def test_an_invalid_spec_is_told_with_its_field_and_mended_by_an_edit() -> None:
    cluster = Cluster(job(es={"populationSize": 1}))
    cluster.settle()
    assert cluster.condition("Accepted")["reason"] == "InvalidSpec"
    assert "spec.es.populationSize" in cluster.condition("Accepted")["message"]
    assert not cluster.objects
    assert cluster.status["phase"] == "Pending"
    cluster.edit(es={"populationSize": 4})
    cluster.settle()
    assert cluster.condition("Accepted")["status"] == "True"
    assert cluster.pods()


def test_a_spec_that_becomes_invalid_does_not_stop_the_run_it_began() -> None:
    cluster = running()
    cluster.edit(workers={"replicas": 0})
    cluster.vanish("addition-worker-1")
    cluster.settle()
    assert cluster.condition("Accepted")["reason"] == "InvalidSpec"
    assert "addition-worker-1" in cluster.pods()


def test_an_operator_upgrade_changes_no_pod_of_a_run() -> None:
    cluster = running()
    before = cluster.status["templateHash"]
    cluster.defaults = replace(DEFAULTS, coordinator_image="new/coordinator:2", worker_image="new/worker:2")
    cluster.settle()
    cluster.vanish("addition-worker-0")
    cluster.end_pod("addition-coordinator", 1)
    cluster.settle()
    cluster.pass_by(2)
    cluster.settle()
    images = {pod["spec"]["containers"][0]["image"] for pod in cluster.pods().values()}
    assert images == {"dartes/coordinator:1", "dartes/worker:1"}
    assert cluster.status["templateHash"] == before
    assert cluster.status["images"] == {"coordinator": "dartes/coordinator:1", "worker": "dartes/worker:1"}


def test_a_template_changed_while_running_is_ignored_and_said_so_once() -> None:
    cluster = running()
    config_map = [key for key in cluster.objects if key[0] == "ConfigMap"]
    cluster.edit(workers={"podTemplate": {"metadata": {"labels": {"team": "blue"}}}})
    cluster.settle()
    cluster.settle()
    assert cluster.condition("Accepted")["status"] == "True"
    assert cluster.condition("Accepted")["reason"] == "TemplateChangeIgnored"
    assert "spec.workers.podTemplate" in cluster.condition("Accepted")["message"]
    assert cluster.event_reasons().count("TemplateChangeIgnored") == 1
    assert [key for key in cluster.objects if key[0] == "ConfigMap"] == config_map
    cluster.edit(workers={"podTemplate": None})
    cluster.settle()
    assert cluster.condition("Accepted")["reason"] == "Accepted"


def test_the_word_of_an_ignored_template_comes_back_when_another_trouble_has_passed() -> None:
    cluster = running()
    cluster.edit(workers={"podTemplate": {"metadata": {"labels": {"team": "blue"}}}})
    cluster.settle()
    cluster.vanish("addition-worker-0")
    cluster.refuse["Pod/"] = (Trouble.INVALID, "no such priority class")
    for _ in range(3):
        cluster.pass_by(60)
        cluster.step()
    assert cluster.condition("Accepted")["reason"] == "PodTemplateInvalid"
    cluster.refuse.clear()
    cluster.pass_by(60)
    cluster.settle()
    assert cluster.condition("Accepted")["reason"] == "TemplateChangeIgnored"
    assert cluster.event_reasons().count("TemplateChangeIgnored") == 1


def test_the_pinned_job_is_read_after_an_edit_and_at_no_other_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running()
    reads: list[str] = []

    def read(text: str) -> None:
        reads.append(text)

    monkeypatch.setattr(pinning, "read_pinned", read)
    for _ in range(3):
        cluster.advance(1)
        cluster.pass_by(60)
        cluster.step()
    assert reads == []
    cluster.edit(workers={"replicas": 3})
    cluster.step()
    assert reads


def test_a_refused_template_names_its_paths_and_makes_nothing() -> None:
    template = {"spec": {"hostNetwork": True}}
    cluster = Cluster(job(workers={"podTemplate": template}))
    cluster.settle()
    assert cluster.condition("Accepted")["reason"] == "PodTemplateInvalid"
    assert "spec.workers.podTemplate.spec.hostNetwork" in cluster.condition("Accepted")["message"]
    assert cluster.event_reasons() == ["PodTemplateInvalid"]
    assert not cluster.objects
    assert "startTime" not in cluster.status
    cluster.edit(workers={"podTemplate": None})
    cluster.settle()
    assert cluster.pods()


def test_a_lost_run_config_is_rendered_again() -> None:
    cluster = running()
    key = next(key for key in cluster.objects if key[0] == "ConfigMap")
    del cluster.objects[key]
    cluster.settle()
    assert key in cluster.objects


def test_a_run_config_lost_after_an_upgrade_is_rendered_with_the_images_of_the_run() -> None:
    cluster = running()
    images = cluster.status["images"]
    for key in [key for key in cluster.objects if key[0] == "ConfigMap"]:
        del cluster.objects[key]
    cluster.defaults = replace(DEFAULTS, coordinator_image="new/coordinator:2", worker_image="new/worker:2")
    cluster.settle()
    cluster.vanish("addition-worker-0")
    cluster.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods("worker").values()} == {
        "dartes/worker:1"
    }
    assert cluster.status["images"] == images


@pytest.mark.parametrize("crash", range(12))
def test_a_crash_anywhere_in_the_start_is_made_good(crash: int) -> None:
    cluster = Cluster()
    cluster.crash(crash)
    cluster.pass_by(1)
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert cluster.now > START
    marks = {pod["metadata"]["annotations"]["dartes.dev/authority"] for pod in cluster.pods().values()}
    assert marks == set(cluster.secrets.values())


def test_a_settled_job_is_not_written_again() -> None:
    cluster = running()
    writes = cluster.status_writes
    for _ in range(5):
        cluster.pass_by(30)
        cluster.settle()
    assert cluster.status_writes == writes


def test_the_operators_own_settings_reach_the_pods() -> None:
    cluster = Cluster()
    cluster.defaults = replace(
        DEFAULTS,
        pull_policy="Always",
        pull_secrets=("registry",),
        tolerations=({"key": "spot", "operator": "Exists"},),
        node_selector={"pool": "batch"},
    )
    cluster.settle()
    for pod in cluster.pods().values():
        spec = pod["spec"]
        assert spec["containers"][0]["imagePullPolicy"] == "Always"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert {"key": "spot", "operator": "Exists"} in spec["tolerations"]
        assert spec["nodeSelector"] == {"pool": "batch"}


def _planted(cluster: Cluster, name: str, data: dict[str, str], uid: str = "planted") -> None:
    """A ConfigMap that somebody made, with the job's labels."""
    labels = {"dartes.dev/job-uid": UID, "app.kubernetes.io/managed-by": "dartes-operator"}
    meta = {"name": name, "uid": uid, "labels": labels, "creationTimestamp": "2030-01-01T00:00:00Z"}
    cluster.objects[("ConfigMap", name)] = {"kind": "ConfigMap", "metadata": meta, "data": data}


def _privileged() -> dict[str, str]:
    made = Cluster()
    made.settle()
    data = next(value["data"] for (kind, _), value in made.objects.items() if kind == "ConfigMap")
    pods = json.loads(data["pods.json"])
    for pod in pods.values():
        pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return {**data, "pods.json": json.dumps(pods)}


@pytest.mark.parametrize("named", ["started", "status lost", "map lost", "both lost"])
def test_a_run_config_that_the_status_does_not_name_pins_nothing(named: str) -> None:
    cluster = running()
    ours = next(key for key in cluster.objects if key[0] == "ConfigMap")
    data = _privileged()
    _planted(cluster, f"addition-run-{hash_of(data)}", data)
    if named in ("status lost", "both lost"):
        del cluster.status["templateHash"]
    if named in ("map lost", "both lost"):
        del cluster.objects[ours]
    cluster.vanish("addition-worker-0")
    cluster.settle()
    assert "privileged" not in str(cluster.pod("addition-worker-0"))
    assert [key for key in cluster.objects if key[0] == "ConfigMap"] == [ours]
    assert cluster.status["templateHash"] == ours[1].removeprefix("addition-run-")


def test_a_run_config_of_the_right_name_with_other_data_is_replaced() -> None:
    made = running()
    (_, name), right = next(item for item in made.objects.items() if item[0][0] == "ConfigMap")
    cluster = Cluster()
    _planted(cluster, name, {**right["data"], "job.yaml": "{}"})
    cluster.settle()
    assert cluster.objects[("ConfigMap", name)]["data"] == right["data"]
    assert cluster.pods()


def test_the_hash_of_a_run_is_too_long_to_be_found_again_for_other_data() -> None:
    assert len(running().status["templateHash"]) == 32
