"""A job as the API server gives it: checked in the words of a job file, and complete when written down."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from dartes.spec import InvalidJobError, dump_job, job_from_object, parse_job_text
from dartes.spec.crd import definition
from dartes.spec.yaml_text import read_yaml, write_yaml

from .conftest import changed
from .structural_kit import defaulted

DEFINITION: Any = definition()
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def stored(changes: dict[str, Any]) -> dict[str, Any]:
    """The small job as it comes from an API server: defaults, metadata and status filled in."""
    data: dict[str, Any] = defaulted(SCHEMA, deepcopy(changed(changes)))
    data["metadata"] |= {
        "namespace": "team",
        "uid": "5f0c1c4e-1111-2222-3333-444455556666",
        "resourceVersion": "41",
        "generation": 2,
        "creationTimestamp": "2026-11-29T21:00:00Z",
        "finalizers": ["kueue.x-k8s.io/managed-job"],
        "ownerReferences": [{"name": "x"}],
        "managedFields": [{"manager": "kubectl"}],
        "labels": {"team": "a"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 100_000},
    }
    data["status"] = {"phase": "Running", "conditions": []}
    return data


def problems(changes: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidJobError) as raised:
        job_from_object(stored(changes))
    return {problem.path: problem.message for problem in raised.value.problems}


def test_defaults_metadata_and_status_that_the_server_adds_are_no_mistakes() -> None:
    loaded = job_from_object(stored({}))
    file = parse_job_text(write_yaml(changed({})), "job.yaml", Path())
    assert loaded.job.spec == file.job.spec
    assert (loaded.job.metadata.name, loaded.job.metadata.namespace) == ("small", "team")
    assert loaded.warnings == ()


def test_what_is_written_down_for_the_pods_is_a_complete_job_file() -> None:
    role = {
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    loaded = job_from_object(stored({"spec.workers": role, "spec.export.destination": "pvc://out/model"}))
    written: Any = read_yaml(dump_job(loaded.job)).value
    assert written["metadata"] == {"name": "small", "namespace": "team"}
    assert written["spec"]["workers"]["volumes"] == role["volumes"]
    assert written["spec"]["workers"]["resources"] == role["resources"]
    assert written["spec"]["export"] == {"destination": "pvc://out/model", "iteration": "Last"}
    assert written["spec"]["startupDeadlineSeconds"] == 1800
    again = parse_job_text(dump_job(loaded.job), "job.yaml", Path())
    assert dump_job(again.job) == dump_job(loaded.job)


def test_what_is_not_honoured_is_refused_in_the_words_of_a_job_file() -> None:
    assert problems({"spec.monitoring": {"podMonitor": True}}) == {
        "spec.monitoring": "not supported yet by this version; remove it",
    }


def test_the_error_names_the_object() -> None:
    with pytest.raises(InvalidJobError, match=r"^DartESJob team/small: spec\.es\.sigma: 5 is too large"):
        job_from_object(stored({"spec.es.sigma": 5}))


@pytest.mark.parametrize("broken", [{}, {"metadata": {"name": "x"}}, {"metadata": {"name": "x"}, "spec": []}])
def test_an_object_that_is_no_job_says_so(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidJobError) as raised:
        job_from_object(broken)
    assert "apiVersion" in {problem.path for problem in raised.value.problems}


def test_a_task_of_the_users_own_image_is_left_to_the_pods_to_judge() -> None:
    assert "no task of the name" in problems({"spec.task.kind": "my-task"})["spec.task.kind"]
    loaded = job_from_object(stored({"spec.task.kind": "my-task", "spec.workers.image": "mine:1"}))
    assert loaded.job.spec.task.kind == "my-task"
    found = problems({"spec.task.kind": "my-task", "spec.workers": {"image": "mine:1", "replicas": 0}})
    assert list(found) == ["spec.workers.replicas"]


def test_the_object_itself_is_left_as_it_is() -> None:
    given = stored({})
    before = deepcopy(given)
    job_from_object(given)
    assert given == before
