"""What no code honours yet is refused by name; what is honoured is not."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from dartes.spec import LoadedJob, honoured, supported
from dartes.spec.fields import entries, entry_paths
from dartes.spec.honoured import (
    HONOURED,
    HONOURED_SCHEMES,
    holds_honoured,
    is_for_a_cluster,
    is_honoured,
)
from dartes.spec.roles import PodPlacement

Load = Callable[[dict[str, Any]], LoadedJob]
Problems = Callable[[dict[str, Any]], dict[str, str]]
NOT_YET = "not supported yet by this version; remove it"
MAPS = ("nodeSelector", "labels", "annotations")
OWN_REWARD = {"kind": "python", "python": {"configMap": {"name": "rewards"}}}
HELD_OUT = {"name": "held-out", "dataset": {"source": "builtin://addition", "split": "test"}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.monitoring", {"podMonitor": True}),
    ],
)
def test_a_field_that_nothing_honours_is_refused_by_name(
    problems: Problems, path: str, value: object
) -> None:
    assert problems({path: value}) == {path: NOT_YET}


def test_part_of_a_field_may_be_honoured_and_the_rest_refused(
    problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ("spec", "checkpoint", "resumeFrom")
    monkeypatch.setattr(honoured, "_PATHS", honoured._PATHS - {whole} | {(*whole, "jobName")})
    found = problems({"spec.checkpoint.resumeFrom": {"jobName": "other", "iteration": 3}})
    assert found == {"spec.checkpoint.resumeFrom.iteration": NOT_YET}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.monitoring", {"podMonitor": False}),
        ("spec.dataset.filters", {}),
        ("spec.evaluation.logCompletions", 0),
        ("spec.workers.engineOptions", {"gpuMemoryUtilization": 0.9}),
        ("spec.workers.engineOptions", {}),
    ],
)
def test_a_default_written_out_changes_nothing_and_is_not_refused(
    load: Load, path: str, value: object
) -> None:
    assert load({path: value}).job.spec == load({}).job.spec


def test_a_value_of_another_type_is_no_default(problems: Problems) -> None:
    assert "spec.evaluation.logCompletions" in problems({"spec.evaluation.logCompletions": False})
    assert "spec.monitoring" in problems({"spec.monitoring": {"podMonitor": 0}})


def test_a_field_that_is_null_is_not_refused(load: Load) -> None:
    load({"spec.queueName": None, "spec.export": None})


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (
            {"spec.model.source": "s3://bucket/model"},
            "spec.model.source",
            "allowed: file://, hf://, builtin://, pvc:// or a local path",
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
    ],
)
def test_a_value_that_nothing_honours_is_refused_by_name(
    problems: Problems, changes: dict[str, Any], path: str, words: str
) -> None:
    assert words in problems(changes)[path]


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (
            {"spec.model.source": "hf://datasets/org/name"},
            "spec.model.source",
            "names a data set on the hub; a model is written hf://org/name",
        ),
        (
            {"spec.dataset.source": "hf://openai/gsm8k"},
            "spec.dataset.source",
            "names a model on the hub; a data set is written hf://datasets/openai/gsm8k",
        ),
        (
            {"spec.dataset": {"mix": [{"source": "builtin://addition"}, {"source": "hf://org/name"}]}},
            "spec.dataset.mix[1].source",
            "names a model on the hub",
        ),
        (
            {"spec.evaluation.holdouts": [{"name": "forgets", "dataset": {"source": "hf://org/name"}}]},
            "spec.evaluation.holdouts[0].dataset.source",
            "names a model on the hub",
        ),
    ],
)
def test_a_model_where_problems_are_asked_for_is_called_one_and_the_other_way_round(
    problems: Problems, changes: dict[str, Any], path: str, words: str
) -> None:
    assert words in problems(changes)[path]


@pytest.mark.parametrize("where", ["spec.dataset", "spec.evaluation.sets", "spec.evaluation.holdouts"])
@pytest.mark.parametrize(
    "source",
    ["hf://datasets/org/name@main", "pvc://claim/data", "s3://bucket/data", "gs://bucket/data", "a.parquet"],
)
def test_problems_may_come_from_everywhere(load: Load, where: str, source: str) -> None:
    one = {"source": source}
    load({where: one if where == "spec.dataset" else [{"name": "held-out", "dataset": one}]})


def test_a_wrong_value_is_called_wrong_and_not_unsupported(problems: Problems) -> None:
    assert "did you mean VLLM?" in problems({"spec.workers.engine": "vllm"})["spec.workers.engine"]


def test_everything_honoured_can_be_set_at_once(load: Load) -> None:
    loaded = load(
        {
            "spec.model": {"source": "hf://org/name", "revision": "main", "dtype": "BFloat16"},
            "spec.dataset": {
                "stages": [
                    {
                        "source": "hf://datasets/org/name",
                        "config": "main",
                        "split": "train",
                        "revision": "v1",
                        "maxProblems": 500,
                        "columns": {"answer": "solution"},
                        "filters": {"level": ["3", "4"]},
                        "iterations": 3,
                        "task": {"kind": "math", "fitness": "Score"},
                    },
                    {"source": "problems.jsonl", "epochs": 1},
                ],
            },
            "spec.task": {
                "kind": "countdown",
                "prompt": "{numbers}",
                "system": "Think.",
                "answerFormat": "Boxed",
                "fitness": "Score",
                "passThreshold": 0.5,
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
                "antithetic": True,
                "masterDtype": "Float32",
                "servedDtype": "Float16",
                "slicesPerMember": 2,
            },
            "spec.dart": {"enabled": False, "replay": {"ratio": 0.1}},
            "spec.evaluation": {
                "sets": [{**HELD_OUT, "task": {"kind": "countdown"}, "samples": 4, "temperature": 0.6}],
                "holdouts": [{**HELD_OUT, "name": "forgets", "task": OWN_REWARD}],
                "everyIterations": 5,
                "parent": True,
                "logCompletions": 8,
            },
            "spec.workers": {"replicas": 4, "engine": "Transformers", "threads": 2, "gpusPerWorker": 0},
            "spec.failurePolicy": {"coordinatorRestarts": 1, "workerFailures": 2},
            "spec.checkpoint": {"keep": 2, "weights": {"everyIterations": 10}},
        }
    )
    assert loaded.job.spec.task.options == {"width": 2, "style": "plain"}
    assert loaded.warnings == ()


def test_a_mix_with_weights_and_tasks_of_its_own_is_honoured(load: Load) -> None:
    mix = [
        {"source": "builtin://addition", "weight": 2.0},
        {"source": "x.jsonl", "task": {"kind": "python", "python": {"function": "mine:reward"}}},
    ]
    assert [part.weight for part in load({"spec.dataset": {"mix": mix}}).job.spec.dataset.mix] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (
            {
                "spec.dataset": {"stages": [{"source": "x.jsonl", "epochs": 1, "task": {"kind": "adition"}}]},
                "spec.es": {},
            },
            "spec.dataset.stages[0].task.kind",
        ),
        (
            {"spec.dataset": {"mix": [{"source": "x.jsonl", "task": {"kind": "adition"}}]}},
            "spec.dataset.mix[0].task.kind",
        ),
        (
            {"spec.evaluation.holdouts": [HELD_OUT | {"task": {"kind": "adition"}}]},
            "spec.evaluation.holdouts[0].task.kind",
        ),
    ],
)
def test_an_unknown_task_is_refused_wherever_a_task_may_stand(
    problems: Problems, changes: dict[str, Any], path: str
) -> None:
    assert "did you mean addition?" in problems(changes)[path]


def test_an_unknown_task_names_those_there_are(problems: Problems) -> None:
    message = problems({"spec.task.kind": "adition"})["spec.task.kind"]
    assert message.startswith("no task of the name 'adition' is installed; allowed: addition, arithmetic")
    assert message.endswith("did you mean addition?")


def test_a_task_that_the_user_installed_is_known(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    own = EntryPoint("my-task", "mine:Task", supported.TASK_GROUP)
    monkeypatch.setattr(supported, "entry_points", lambda group: EntryPoints([own]).select(group=group))
    assert load({"spec.task.kind": "my-task"}).job.spec.task.kind == "my-task"


def test_what_is_installed_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(group: str) -> EntryPoints:
        looked.append(group)
        return EntryPoints([])

    monkeypatch.setattr(supported, "entry_points", look)
    assert supported.known_kinds() == supported.known_kinds() == ()
    assert looked == [supported.TASK_GROUP]


def test_the_tables_name_only_fields_that_exist() -> None:
    for path in (*HONOURED, *HONOURED_SCHEMES):
        assert tuple(path.split(".")) in entry_paths(), path


def test_every_field_is_honoured_or_refused_and_never_both() -> None:
    for entry in entries():
        assert not (is_honoured(entry.path) and not is_honoured((*entry.path, "inner")))
    found = {entry.text for entry in entries() if is_honoured(entry.path)}
    assert "spec.es.sigma" in found
    assert "spec.workers.minReplicas" in found
    assert "spec.checkpoint.resumeFrom.iteration" in found
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


def test_secrets_of_data_sets_are_for_a_cluster_and_named_one_by_one(load: Load) -> None:
    secret = {"secretRef": {"name": "hub"}}
    stages = [{"source": "a.jsonl", "epochs": 1}, {"source": "b.jsonl", "epochs": 1, **secret}]
    held_out = {"name": "held-out", "dataset": {"source": "c.jsonl", **secret}}
    (warning,) = load(
        {"spec.dataset": {"stages": stages}, "spec.es": {}, "spec.evaluation.sets": [held_out]}
    ).warnings
    assert warning == (
        "ignored outside a cluster: spec.dataset.stages[1].secretRef, "
        "spec.evaluation.sets[0].dataset.secretRef"
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
