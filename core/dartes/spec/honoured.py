"""The fields and values that this version honours: a table, and nothing that acts on it.

New fields of the model are refused until they are listed here, so that forgetting this file is safe.
"""

from collections.abc import Mapping

from dartes.spec.source import Scheme

TRAINED_ON = ("spec.dataset", "spec.dataset.stages.[]", "spec.dataset.mix.[]")
"""Where problems to train on are chosen."""

EVALUATION_SETS = ("spec.evaluation.sets.[]", "spec.evaluation.holdouts.[]")

SELECTIONS = (*TRAINED_ON, *(f"{each}.dataset" for each in EVALUATION_SETS))
"""Everything that chooses problems: a source, and what is taken of it."""

TASKS = ("spec.task", *(f"{place}.task" for place in (*TRAINED_ON[1:], *EVALUATION_SETS)))
"""Everything that says how problems are asked and graded."""

_SELECTION = ("source", "config", "split", "revision", "maxProblems", "columns", "filters")
_TASK = (
    "kind",
    "prompt",
    "system",
    "answerFormat",
    "fitness",
    "passThreshold",
    "auxiliaryWeight",
    "options",
    "python",
)
_PLACEMENT = (
    "image",
    "resources",
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "schedulerName",
    "serviceAccountName",
    "labels",
    "annotations",
    "env",
    "envFrom",
    "volumes",
    "volumeMounts",
    "imagePullSecrets",
    "podTemplate",
)

_HONOURED_EVERYWHERE = (
    "apiVersion",
    "kind",
    "metadata.name",
    "spec.model.source",
    "spec.model.revision",
    "spec.model.dtype",
    *(f"{place}.{name}" for place in SELECTIONS for name in _SELECTION),
    "spec.dataset.stages.[].iterations",
    "spec.dataset.stages.[].epochs",
    "spec.dataset.mix.[].weight",
    *(f"{place}.{name}" for place in TASKS for name in _TASK),
    "spec.generation",
    "spec.es",
    "spec.dart",
    "spec.evaluation.everyIterations",
    "spec.evaluation.parent",
    "spec.evaluation.logCompletions",
    *(f"{each}.{name}" for each in EVALUATION_SETS for name in ("name", "samples", "temperature")),
    "spec.workers.replicas",
    "spec.workers.engine",
    "spec.workers.engineOptions",
    "spec.workers.threads",
    "spec.workers.gpusPerWorker",
    "spec.failurePolicy.coordinatorRestarts",
    "spec.failurePolicy.workerFailures",
    "spec.checkpoint.keep",
    "spec.checkpoint.weights.everyIterations",
)

HONOURED_IN_A_CLUSTER: tuple[str, ...] = (
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "spec.suspend",
    "spec.managedBy",
    "spec.queueName",
    "spec.priorityClassName",
    "spec.activeDeadlineSeconds",
    "spec.ttlSecondsAfterFinished",
    "spec.startupDeadlineSeconds",
    "spec.model.secretRef",
    "spec.model.cache",
    *(f"{place}.secretRef" for place in SELECTIONS),
    *(f"spec.{role}.{name}" for role in ("coordinator", "workers") for name in _PLACEMENT),
    "spec.workers.minReplicas",
    "spec.workers.maxReplicas",
    "spec.workers.gpuResourceName",
    "spec.workers.runtimeClassName",
    "spec.workers.scaleDown",
    "spec.failurePolicy.maxDisruptions",
    "spec.checkpoint.volume",
    "spec.checkpoint.retentionPolicy",
    "spec.checkpoint.resumeFrom",
    "spec.checkpoint.weights.destination",
    "spec.export.destination",
    "spec.export.secretRef",
    "spec.export.iteration",
    "spec.networkPolicy",
    "spec.disruptionBudget",
)
"""Fields that mean something to a cluster alone: a run on one machine goes on without them, and says so."""

HONOURED: tuple[str, ...] = (*_HONOURED_EVERYWHERE, *HONOURED_IN_A_CLUSTER)
"""Honoured fields; one that holds fields of its own stands for all of them."""

HONOURED_SCHEMES: Mapping[str, tuple[Scheme, ...]] = {
    "spec.model.source": (Scheme.FILE, Scheme.HUB, Scheme.BUILTIN, Scheme.PVC),
    "spec.checkpoint.weights.destination": (Scheme.PVC,),
    "spec.export.destination": (Scheme.PVC, Scheme.S3, Scheme.GCS, Scheme.HUB),
}

_PATHS = frozenset(tuple(path.split(".")) for path in HONOURED)
_CLUSTER_PATHS = frozenset(tuple(path.split(".")) for path in HONOURED_IN_A_CLUSTER)


def is_honoured(path: tuple[str, ...]) -> bool:
    """True where a field, or a field that holds it, is honoured as a whole."""
    return any(path[:length] in _PATHS for length in range(1, len(path) + 1))


def holds_honoured(path: tuple[str, ...]) -> bool:
    """True where some field inside this one is honoured."""
    return any(honoured[: len(path)] == path for honoured in _PATHS)


def is_for_a_cluster(path: tuple[str, ...]) -> bool:
    """True where a field, or a field that holds it, is honoured by a cluster alone."""
    return any(path[:length] in _CLUSTER_PATHS for length in range(1, len(path) + 1))


def holds_fields_for_a_cluster(path: tuple[str, ...]) -> bool:
    """True where some field inside this one is honoured by a cluster alone."""
    return any(honoured[: len(path)] == path for honoured in _CLUSTER_PATHS)
