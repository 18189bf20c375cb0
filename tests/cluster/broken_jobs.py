"""Tables of what makes the smallest job wrong, with the words that say so, and of what leaves it right.

They are tried at creation, as a change, and locally.
"""

from typing import Any

SET = {"name": "held-out", "dataset": {"source": "builtin://addition", "split": "test"}}
"""An evaluation set."""

STAGE = {"source": "builtin://addition"}
TOKEN = {"serviceAccountToken": {"path": "token"}}

BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("spec.es", {"es.epochs": 2}, "iterations and epochs are both the length of the run: remove one of the"),
    ("spec.es", {"es": {}}, "the length of the run is missing, or given twice"),
    (
        "spec.es",
        {"dataset": {"stages": [STAGE | {"epochs": 1}]}},
        "the length of the run is missing, or given twice: set exactly one of es.iterations or es.epochs",
    ),
    (
        "spec.es.populationSize",
        {"es.antithetic": True, "es.populationSize": 31},
        "antithetic pairs the members: write an even populationSize, or antithetic: false",
    ),
    (
        "spec.es.slicesPerMember",
        {"es.slicesPerMember": 3, "es.batchSize": 2},
        "more slices than problems in a batch would be empty: write at most batchSize",
    ),
    (
        "spec.es.batchSize",
        {"dataset.maxProblems": 100},
        "es.batchSize is larger than dataset.maxProblems: lower it to at most dataset.maxProblems",
    ),
    ("spec.dataset", {"dataset": {}}, "set exactly one of source, stages or mix: it says where the problems"),
    (
        "spec.dataset",
        {"dataset.stages": [STAGE | {"epochs": 1}]},
        "set exactly one of source, stages or mix",
    ),
    (
        "spec.dataset.stages[0]",
        {"dataset": {"stages": [STAGE]}},
        "set exactly one of iterations or epochs: it is the length of the stage",
    ),
    (
        "spec.dataset.stages[0]",
        {"dataset": {"stages": [STAGE | {"epochs": 1, "iterations": 1}]}},
        "set exactly one of iterations or epochs: it is the length of the stage",
    ),
    (
        "spec.task.python",
        {"task.python": {"function": "mine:reward"}},
        "python is only used with kind: python: remove it or change kind",
    ),
    ("spec.task.python", {"task.kind": "python"}, "kind: python needs python: set python.function to"),
    (
        "spec.task.python",
        {"task": {"kind": "python", "python": {}}},
        "set exactly one of function or configMap: it says where the reward function is",
    ),
    (
        "spec.evaluation.sets",
        {"evaluation.sets": [SET, SET]},
        "two sets have the same name: give every set its own name",
    ),
    (
        "spec.evaluation.sets[0].samples",
        {"evaluation.sets": [SET | {"samples": 4}]},
        "several greedy answers are all the same: set temperature above 0, or samples: 1",
    ),
    (
        "spec.evaluation.holdouts",
        {"evaluation": {"sets": [SET], "holdouts": [SET]}},
        "a holdout has the name of another set: give every set its own name",
    ),
    (
        "spec.evaluation.holdouts",
        {"evaluation.holdouts": [SET, SET]},
        "a holdout has the name of another set: give every set its own name",
    ),
    *(
        (
            f"spec.evaluation.{kind}[0].name",
            {f"evaluation.{kind}": [SET | {"name": name}]},
            "records call something else so: give the set another name",
        )
        for kind, name in (("sets", "train"), ("holdouts", "reward"))
    ),
    (
        "spec.evaluation.sets[0].dataset.source",
        {"evaluation.sets": [SET | {"dataset": {"split": "test"}}]},
        "Required value",
    ),
    (
        "spec.dataset.stages[0].task.python",
        {"dataset": {"stages": [STAGE | {"epochs": 1, "task": {"kind": "python"}}]}, "es": {}},
        "kind: python needs python: set python.function to",
    ),
    (
        "spec.workers.minReplicas",
        {"workers": {"minReplicas": 3, "maxReplicas": 2}},
        "minReplicas is above maxReplicas: lower it or raise that",
    ),
    (
        "spec.model.cache",
        {"model.cache": {}},
        "set exactly one of emptyDir, claimName or image: a model is cached in one place",
    ),
    ("spec.model.cache", {"model.cache": {"claimName": "a", "image": "b"}}, "set exactly one of emptyDir,"),
    (
        "spec.checkpoint.volume",
        {"checkpoint.volume": {"claimName": "a", "size": "1Gi"}},
        "remove claimName or those",
    ),
    (
        "spec.checkpoint.resumeFrom",
        {"checkpoint.resumeFrom": {}},
        "set exactly one of jobName or claimName: it says whose state to start from",
    ),
    (
        "spec.checkpoint.resumeFrom",
        {"checkpoint.resumeFrom": {"jobName": "a", "claimName": "b"}},
        "set exactly one of jobName or claimName",
    ),
    (
        "spec.model.source",
        {"model.source": "ftp://host/model"},
        "not spelt as a source: write builtin://NAME",
    ),
    ("spec.model.source", {"model.source": "hf://a/b/c"}, "not spelt as a source"),
    ("spec.model.source", {"model.source": "hf://datasets"}, "not spelt as a source"),
    ("spec.model.source", {"model.source": "builtin://Addition"}, "not spelt as a source"),
    ("spec.model.source", {"model.source": "  "}, "not spelt as a source"),
    ("spec.dataset.source", {"dataset.source": "s3://"}, "not spelt as a source"),
    ("spec.dataset.source", {"dataset.source": "hf://datasets/a/b@"}, "not spelt as a source"),
    ("spec.dataset.source", {"dataset.source": "hf://a/b@main"}, "not spelt as a source"),
    ("spec.export.destination", {"export.destination": "pvc:///"}, "not spelt as a source"),
    (
        "spec.export.iteration",
        {"export": {"destination": "pvc://a/b", "iteration": "best"}},
        "not an iteration: write Best, Last or a number from 0 to 1000000",
    ),
    (
        "spec.export.iteration",
        {"export": {"destination": "pvc://a/b", "iteration": -1}},
        "not an iteration: write Best, Last or a number from 0 to 1000000",
    ),
    (
        "spec.workers.volumes[0].hostPath",
        {"workers.volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
        "hostPath reaches the files of a node: mount a persistentVolumeClaim",
    ),
    (
        "spec.coordinator.volumes[0].projected.sources[0].serviceAccountToken",
        {"coordinator.volumes": [{"name": "a", "projected": {"sources": [TOKEN]}}]},
        "training pods hold no API token: remove serviceAccountToken",
    ),
    (
        "spec.task.options",
        {"task.options": {"n" * 64: 1}},
        "a name here has 1 to 63 characters: write a name of that length",
    ),
    ("spec.dataset.columns", {"dataset.columns": {"": "x"}}, "a name here has 1 to 128 characters"),
    # The schema's own part, in the server's words.
    ("spec.es.sigma", {"es.sigma": 0}, "should be greater than 0"),
    ("spec.es.sigma", {"es.sigma": "lots"}, "must be of type number"),
    ("spec.es.populationSize", {"es.populationSize": 1}, "should be greater than or equal to 2"),
    ("spec.es.populationSize", {"es.populationSize": 2.5}, "must be of type int32"),
    ("spec.model.dtype", {"model.dtype": "bfloat16"}, 'supported values: "Float32", "BFloat16", "Float16"'),
    ("spec.workers.resources.limits.memory", {"workers.resources": {"limits": {"memory": "lots"}}}, "match"),
    (
        "spec.workers.resources.limits.cpu",
        {"workers.resources": {"limits": {"cpu": -1}}},
        "greater than or eq",
    ),
    ("spec.generation.stop", {"generation.stop": ["x"] * 17}, "must have at most 16 items"),
    ("spec.evaluation.sets[0].name", {"evaluation.sets": [SET | {"name": "Held.out"}]}, "should match"),
    ("spec.task", {"task": None}, "Required value"),
]
"""The field that the server names, what breaks it, and words that must be said."""

BROKEN_INSIDE: list[tuple[str, dict[str, Any], str]] = [
    ("spec.workers.tolerations[0].operator", {"workers.tolerations": [{"operator": "Has"}]}, "supported val"),
    ("spec.workers.env[0].name", {"workers.env": [{"value": "x"}]}, "Required value"),
    ("spec.coordinator.volumeMounts[0].mountPath", {"coordinator.volumeMounts": [{"name": "a"}]}, "Required"),
    (
        "spec.workers.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        {"workers.affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
        "Required value",
    ),
]
"""The same inside Kubernetes' own types, which the models carry as they are."""

RIGHT: list[dict[str, Any]] = [
    {},
    {"es": {"epochs": 1}},
    {"es.antithetic": True, "es.populationSize": 32},
    {"es.slicesPerMember": 2, "es.batchSize": 2},
    {"es.seed": 2**63 - 1},
    {"es.sigma": 1},
    {"dataset.maxProblems": 200},
    {"dataset": {"stages": [STAGE | {"epochs": 1}, STAGE | {"iterations": 1}]}, "es": {}},
    {"dataset": {"stages": [STAGE | {"epochs": 1, "task": {"kind": "gsm8k"}}]}, "es": {}},
    {"dataset": {"mix": [STAGE, STAGE | {"weight": 2}]}},
    {"dataset": {"mix": [STAGE | {"task": {"kind": "gsm8k"}}, STAGE | {"filters": {"level": [1, "2"]}}]}},
    {"dataset.stages": [], "dataset.mix": []},
    {"dataset.columns": {"answer": "solution"}, "task.options": {"n" * 63: 1, "style": "plain"}},
    {"task": {"kind": "python", "python": {"function": "mine:reward"}}},
    {"task": {"kind": "python", "python": {"configMap": {"name": "mine"}}}},
    {"evaluation.sets": [SET, SET | {"name": "other"}]},
    {"evaluation.sets": [SET | {"samples": 4, "temperature": 1}]},
    {"evaluation": {"sets": [SET], "holdouts": [SET | {"name": "other"}], "logCompletions": 5}},
    {"task": {"kind": "gsm8k", "fitness": "Score", "passThreshold": 0.5, "auxiliaryWeight": 0}},
    {"workers": {"minReplicas": 2, "maxReplicas": 2}},
    {"workers": {"minReplicas": 2}},
    {"model.cache": {"emptyDir": {"sizeLimit": "20Gi"}}},
    {"model.cache": {"claimName": "models"}},
    {"model.cache": {"image": "models:1"}},
    {"checkpoint.volume": {"claimName": "a"}},
    {"checkpoint.volume": {"size": 1073741824, "accessMode": "ReadWriteOncePod"}},
    {"checkpoint.resumeFrom": {"claimName": "a"}},
    *({"model.source": source} for source in ("hf://gpt2", "hf://org/name", "pvc://claim/a/b", "s3://b/k")),
    *({"model.source": source} for source in ("file:///models/a b", "models/tiny", "./a:b", "gs://b/k")),
    {"dataset.source": "hf://datasets/openai/gsm8k"},
    {"dataset.source": "hf://datasets/openai/gsm8k@v1.0/main"},
    *({"export": {"destination": "pvc://a/b", "iteration": value}} for value in ("Best", "Last", 0, 10**6)),
    {"workers.resources": {"limits": {"memory": "1.5Gi", "cpu": "500m", "nvidia.com/gpu": 1}}},
    {"workers.volumes": [{"name": "a", "projected": {"sources": [{"secret": {"name": "b"}}]}}]},
    {"workers.podTemplate": {"spec": {"anything": [1, "two", {"three": None}]}}},
]
