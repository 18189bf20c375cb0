"""The coordinator's disruption budget, made only where the user would rather have drains wait."""

from typing import Any

from dartes_operator.resources.identity import JobIdentity, Role


def disruption_budget(job: JobIdentity) -> dict[str, Any]:
    """A budget that refuses the eviction of the coordinator.

    `minAvailable` is an integer: a percentage needs a scale subresource of the pod's controller, and a plain
    pod has none.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": job.metadata(job.coordinator, Role.COORDINATOR.value),
        "spec": {"minAvailable": 1, "selector": job.selector(Role.COORDINATOR)},
    }
