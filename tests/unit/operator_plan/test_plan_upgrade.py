"""A run of the release before goes on from what that release pinned, however this one would render it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dartes_operator.plan.pinning import find
from dartes_operator.plan.situation import Situation
from dartes_operator.plan.types import Observed
from dartes_operator.resources import pod
from dartes_operator.resources.run_config import read

from .kit import DEFAULTS, START, Cluster, running

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[3] / "compatibility" / "run.json").read_text(encoding="utf-8")
)
HASH = RECORDED["configMap"]["metadata"]["name"].rpartition("-")[2]


@pytest.fixture
def recorded() -> Cluster:
    """The recorded job as it runs, with its pods lost while no operator was there."""
    job = copy.deepcopy(RECORDED["job"])
    job["metadata"].update(generation=1, creationTimestamp="2026-03-01T12:00:00Z")
    cluster = Cluster(job)
    cluster.settle()
    cluster.start_all()
    cluster.settle()
    for key in [key for key in cluster.objects if key[0] in ("Pod", "ConfigMap")]:
        del cluster.objects[key]
    cluster.objects[("ConfigMap", RECORDED["configMap"]["metadata"]["name"])] = copy.deepcopy(
        RECORDED["configMap"]
    )
    job["status"]["templateHash"] = HASH
    return cluster


def test_what_the_last_release_pinned_is_read_whole() -> None:
    run = read(RECORDED["configMap"])
    assert run is not None
    assert run.template_hash == HASH
    assert set(run.pods) == {"coordinator", "worker", "export"}
    assert set(run.images) == {"coordinator", "worker"}


def test_the_job_of_a_recorded_run_can_still_be_read(recorded: Cluster) -> None:
    observed = Observed(config_maps=(RECORDED["configMap"],))
    pinned = find(Situation(recorded.job, observed, START, DEFAULTS))
    assert pinned is not None
    assert pinned.job is not None
    assert pinned.job.spec.es.population_size == RECORDED["job"]["spec"]["es"]["populationSize"]


def test_pods_of_a_recorded_run_come_back_as_the_last_release_rendered_them(recorded: Cluster) -> None:
    recorded.settle()
    templates = json.loads(RECORDED["configMap"]["data"]["pods.json"])
    for name, role in (("recorded-coordinator", "coordinator"), ("recorded-worker-1", "worker")):
        made = recorded.pod(name)
        assert made["spec"]["containers"] == templates[role]["spec"]["containers"]
        assert made["spec"]["tolerations"] == templates[role]["spec"]["tolerations"]
        assert made["metadata"]["annotations"]["dartes.dev/template-hash"] == HASH
    assert recorded.status["templateHash"] == HASH
    assert [name for kind, name in recorded.objects if kind == "ConfigMap"] == [f"recorded-run-{HASH}"]


def test_another_rendering_changes_no_pod_until_the_job_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = running()
    monkeypatch.setattr(pod, "AWAY_SECONDS", 31)
    cluster.vanish("addition-worker-0")
    cluster.settle()
    assert _patience(cluster.pod("addition-worker-0")) == {30}
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.leave_all()
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert _patience(cluster.pod("addition-worker-0")) == {31}


def _patience(made: dict[str, Any]) -> set[int]:
    return {
        entry["tolerationSeconds"] for entry in made["spec"]["tolerations"] if "tolerationSeconds" in entry
    }
