"""A job in which everything is set, another value for each field, and which of these may change freely."""

from typing import Any

from .broken_jobs import SET
from .stored_jobs import SMALL, with_fields

RICH = with_fields(
    SMALL,
    {
        "queueName": "gpu",
        "priorityClassName": "high",
        "model.revision": "main",
        "model.secretRef": {"name": "hub"},
        "model.cache": {"claimName": "models"},
        "es.servedDtype": "Float32",
        "checkpoint.resumeFrom": {"jobName": "other"},
        "checkpoint.volume": {"size": "1Gi"},
        "checkpoint.weights": {"everyIterations": 5},
        **{
            f"{role}.{name}": value
            for role in ("coordinator", "workers")
            for name, value in {
                "image": "mine:1",
                "resources": {"limits": {"cpu": 1}},
                "nodeSelector": {"pool": "a"},
                "tolerations": [{"operator": "Exists"}],
                "affinity": {"podAntiAffinity": {}},
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ],
                "schedulerName": "mine",
                "serviceAccountName": "mine",
                "labels": {"a": "b"},
                "annotations": {"a": "b"},
                "env": [{"name": "A", "value": "b"}],
                "envFrom": [{"secretRef": {"name": "a"}}],
                "volumes": [{"name": "a", "emptyDir": {}}],
                "volumeMounts": [{"name": "a", "mountPath": "/a"}],
                "imagePullSecrets": [{"name": "a"}],
                "podTemplate": {"spec": {"a": 1}},
            }.items()
        },
        "workers.runtimeClassName": "nvidia",
    },
)
"""A job in which everything that may be left out is set."""

OTHER: dict[str, Any] = {
    "managedBy": "someone.else/controller",
    "queueName": "cpu",
    "priorityClassName": "low",
    "model.source": "hf://org/other",
    "model.revision": "v2",
    "model.dtype": "Float16",
    "model.secretRef": {"name": "other"},
    "model.cache": {"claimName": "elsewhere"},
    "dataset": {"split": "test"},
    "task": {"prompt": "{a}+{b}="},
    "generation": {"maxNewTokens": 9},
    "dart": {"replay": {"ratio": 0.1}},
    "es.populationSize": 32,
    "es.sigma": 0.002,
    "es.learningRate": 0.002,
    "es.batchSize": 100,
    "es.seed": 1,
    "es.iterations": 30,
    "es.antithetic": True,
    "es.servedDtype": "Float16",
    "es.slicesPerMember": 2,
    "checkpoint.volume": {"size": "2Gi"},
    "checkpoint.resumeFrom": {"jobName": "third"},
    "checkpoint.weights": {"everyIterations": 6},
    "workers.engine": "VLLM",
    "workers.engineOptions": {"tensorParallelSize": 2},
    "workers.threads": 2,
    "workers.gpusPerWorker": 2,
    "workers.gpuResourceName": "amd.com/gpu",
    "workers.runtimeClassName": "kata",
    **{
        f"{role}.{name}": value
        for role in ("coordinator", "workers")
        for name, value in {
            "image": "mine:2",
            "resources": {"limits": {"cpu": 2}},
            "nodeSelector": {"pool": "b"},
            "tolerations": [],
            "affinity": {"podAffinity": {}},
            "topologySpreadConstraints": [],
            "schedulerName": "other",
            "serviceAccountName": "other",
            "labels": {"a": "c"},
            "annotations": {"a": "c"},
            "env": [{"name": "A", "value": "c"}],
            "envFrom": [],
            "volumes": [{"name": "a", "emptyDir": {"medium": "Memory"}}],
            "volumeMounts": [{"name": "a", "mountPath": "/b"}],
            "imagePullSecrets": [{"name": "b"}],
        }.items()
    },
}
"""Another value for each field, or part of the spec, under one rule."""

WITHOUT_ANOTHER_VALUE = {"es.masterDtype", "es.epochs"}
"""Fields under a rule that have one value only, or come and go together with another."""

FREE: dict[str, Any] = {
    "suspend": True,
    "activeDeadlineSeconds": 60,
    "ttlSecondsAfterFinished": 0,
    "startupDeadlineSeconds": 60,
    "evaluation": {"everyIterations": 2, "sets": [SET]},
    "workers.replicas": 5,
    "workers.minReplicas": 2,
    "workers.maxReplicas": 8,
    "workers.scaleDown": {"drainSeconds": 5},
    "failurePolicy": {"workerFailures": 1},
    "checkpoint.keep": 5,
    "checkpoint.retentionPolicy": "Delete",
    "export": {"destination": "pvc://a/b"},
    "networkPolicy": {"mode": "Strict"},
    "disruptionBudget": "BlockVoluntary",
    "monitoring": {"podMonitor": True},
    # No rule can see into it; the operator says that the change is ignored.
    "coordinator.podTemplate": {"spec": {"a": 2}},
    "workers.podTemplate": {"spec": {"b": 1}},
}
"""Another value for fields that no rule binds."""
