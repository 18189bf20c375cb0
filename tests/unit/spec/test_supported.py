"""What no code honours yet is refused by name; what is honoured is not."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from dartes.spec import LoadedJob, supported
from dartes.spec.fields import entries, entry_paths
from dartes.spec.honoured import (
    HONOURED,
    HONOURED_SCHEMES,
    HONOURED_VALUES,
    holds_honoured,
    is_for_a_cluster,
    is_honoured,
)
from dartes.spec.roles import PodPlacement

Load = Callable[[dict[str, Any]], LoadedJob]
Problems = Callable[[dict[str, Any]], dict[str, str]]
NOT_YET = "not supported yet by this version; remove it"
MAPS = ("nodeSelector", "labels", "annotations")
HELD_OUT = {"name": "held-out", "dataset": {"source": "builtin://addition", "split": "test"}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.dataset.config", "main"),
        ("spec.dataset.secretRef", {"name": "hub"}),
        ("spec.dataset.filters", {"level": ["3"]}),
        ("spec.task.passThreshold", 0.5),
        ("spec.evaluation.logCompletions", 3),
        ("spec.workers.engineOptions", {"maxModelLen": 10}),
        ("spec.monitoring", {"podMonitor": True}),
    ],
)
def test_a_field_that_nothing_honours_is_refused_by_name(
    problems: Problems, path: str, value: object
) -> None:
    assert problems({path: value}) == {path: NOT_YET}


def test_part_of_a_field_may_be_honoured_and_the_rest_refused(problems: Problems) -> None:
    found = problems({"spec.checkpoint.resumeFrom": {"jobName": "other", "iteration": 3}})
    assert found == {"spec.checkpoint.resumeFrom.iteration": NOT_YET}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.monitoring", {"podMonitor": False}),
        ("spec.dataset.filters", {}),
        ("spec.evaluation.logCompletions", 0),
        ("spec.workers.engineOptions", {"tensorParallelSize": 1, "gpuMemoryUtilization": 0.9}),
        ("spec.workers.engineOptions", {}),
    ],
)
def test_a_default_written_out_changes_nothing_and_is_not_refused(
    load: Load, path: str, value: object
) -> None:
    assert load({path: value}).job.spec == load({}).job.spec


def test_a_value_of_another_type_is_no_default(problems: Problems) -> None:
    assert "spec.evaluation.logCompletions" in problems({"spec.evaluation.logCompletions": False})
    assert "spec.workers.engineOptions" in problems({"spec.workers.engineOptions": {"batchInvariant": 0}})


def test_a_field_that_is_null_is_not_refused(load: Load) -> None:
    load({"spec.queueName": None, "spec.export": None})


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"spec.workers.engine": "VLLM"}, "spec.workers.engine", "'VLLM' is not supported yet"),
        ({"spec.task.fitness": "Score"}, "spec.task.fitness", "'Score' is not supported yet"),
        ({"spec.task.kind": "math"}, "spec.task.kind", "'math' is not supported yet"),
        (
            {"spec.task.kind": "python", "spec.task.python": None},
            "spec.task.kind",
            "'python' is not supported yet",
        ),
        (
            {"spec.model.source": "s3://bucket/model"},
            "spec.model.source",
            "allowed: file://, hf://, builtin://, pvc:// or a local path",
        ),
        (
            {"spec.dataset.source": "hf://datasets/openai/gsm8k"},
            "spec.dataset.source",
            "allowed: file://, builtin:// or a local path",
        ),
        (
            {"spec.checkpoint.weights": {"everyIterations": 5, "destination": "s3://bucket/weights"}},
            "spec.checkpoint.weights.destination",
            "allowed: pvc://",
        ),
        (
            {"spec.export.destination": "models/out"},
            "spec.export.destination",
            "allowed: pvc://, s3://, gs:// or hf://",
        ),
        (
            {"spec.evaluation.sets": [HELD_OUT | {"samples": 4, "temperature": 1.0}]},
            "spec.evaluation.sets[0].samples",
            "4 is not supported yet by this version; allowed: 1",
        ),
        (
            {"spec.evaluation.sets": [HELD_OUT, HELD_OUT | {"name": "b", "temperature": 0.5}]},
            "spec.evaluation.sets[1].temperature",
            "0.5 is not supported yet by this version; allowed: 0",
        ),
    ],
)
def test_a_value_that_nothing_honours_is_refused_by_name(
    problems: Problems, changes: dict[str, Any], path: str, words: str
) -> None:
    assert words in problems(changes)[path]


def test_a_wrong_value_is_called_wrong_and_not_unsupported(problems: Problems) -> None:
    assert "did you mean VLLM?" in problems({"spec.workers.engine": "vllm"})["spec.workers.engine"]


def test_everything_honoured_can_be_set_at_once(load: Load) -> None:
    loaded = load(
        {
            "spec.model": {"source": "hf://org/name", "revision": "main", "dtype": "BFloat16"},
            "spec.dataset": {
                "source": "problems.jsonl",
                "split": "train",
                "maxProblems": 500,
                "columns": {"answer": "solution"},
            },
            "spec.task": {
                "kind": "countdown",
                "prompt": "{numbers}",
                "system": "Think.",
                "answerFormat": "Boxed",
                "fitness": "Pass",
                "auxiliaryWeight": 0.2,
                "options": {"width": 2, "style": "plain"},
            },
            "spec.generation": {
                "maxNewTokens": 8,
                "temperature": 0.7,
                "topP": 0.9,
                "stop": ["END"],
                "tokenBudget": 512,
            },
            "spec.es": {
                "populationSize": 8,
                "sigma": 0.01,
                "learningRate": 0.01,
                "batchSize": 16,
                "seed": 7,
                "epochs": 3,
                "antithetic": True,
                "masterDtype": "Float32",
                "servedDtype": "Float16",
                "slicesPerMember": 2,
            },
            "spec.dart": {"enabled": False, "replay": {"ratio": 0.1}},
            "spec.evaluation": {
                "sets": [{**HELD_OUT, "task": {"kind": "countdown"}, "samples": 1, "temperature": 0}],
                "everyIterations": 5,
                "parent": True,
            },
            "spec.workers": {"replicas": 4, "engine": "Transformers", "threads": 2, "gpusPerWorker": 0},
            "spec.failurePolicy": {"coordinatorRestarts": 1, "workerFailures": 2},
            "spec.checkpoint": {"keep": 2, "weights": {"everyIterations": 10}},
        }
    )
    assert loaded.job.spec.task.options == {"width": 2, "style": "plain"}
    assert loaded.warnings == ()


def test_an_unknown_task_names_those_there_are(problems: Problems) -> None:
    message = problems({"spec.task.kind": "adition"})["spec.task.kind"]
    assert message.startswith("no task of the name 'adition' is installed; allowed: addition, arithmetic")
    assert message.endswith("did you mean addition?")


def test_a_task_that_the_user_installed_is_known(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    own = EntryPoint("my-task", "mine:Task", supported.TASK_GROUP)
    monkeypatch.setattr(supported, "entry_points", lambda group: EntryPoints([own]).select(group=group))
    assert load({"spec.task.kind": "my-task"}).job.spec.task.kind == "my-task"


def test_the_tables_name_only_fields_that_exist() -> None:
    for path in (*HONOURED, *HONOURED_VALUES, *HONOURED_SCHEMES):
        assert tuple(path.split(".")) in entry_paths(), path


def test_every_field_is_honoured_or_refused_and_never_both() -> None:
    for entry in entries():
        assert not (is_honoured(entry.path) and not is_honoured((*entry.path, "inner")))
    honoured = {entry.text for entry in entries() if is_honoured(entry.path)}
    assert "spec.es.sigma" in honoured
    assert "spec.workers.minReplicas" in honoured
    assert "spec.dataset.config" not in honoured
    assert not holds_honoured(("spec", "monitoring"))


def test_fields_for_a_cluster_are_taken_and_named_in_one_line(load: Load) -> None:
    (warning,) = load(
        {
            "metadata.namespace": "team",
            "spec.suspend": True,
            "spec.managedBy": "dartes.dev/operator",
            "spec.workers.resources": {"limits": {"memory": "4Gi"}},
            "spec.workers.replicas": 2,
            "spec.coordinator": {"nodeSelector": {"pool": "cpu"}, "tolerations": []},
            "spec.export.destination": "pvc://results/model",
        }
    ).warnings
    assert warning == (
        "ignored outside a cluster: metadata.namespace, spec.suspend, spec.workers.resources, "
        "spec.coordinator.nodeSelector, spec.export.destination"
    )


def test_a_long_list_of_ignored_fields_is_cut_short(load: Load) -> None:
    names = ("image", "schedulerName", "serviceAccountName")
    both = {f"spec.{role}.{name}": "x" for role in ("coordinator", "workers") for name in names}
    more = {f"spec.{role}.{name}": {"a": "b"} for role in ("coordinator", "workers") for name in MAPS}
    (warning,) = load(both | more | {"spec.suspend": True}).warnings
    assert warning.endswith(" and 1 more")


def test_a_job_without_fields_for_a_cluster_has_no_such_line(load: Load) -> None:
    assert load({"spec.suspend": False, "spec.queueName": None, "spec.export": None}).warnings == ()


def test_every_field_of_a_pod_s_placement_is_honoured_for_both_roles() -> None:
    for name in PodPlacement.model_fields:
        for role in ("coordinator", "workers"):
            assert is_for_a_cluster(("spec", role, to_camel(name)))
