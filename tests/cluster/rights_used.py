"""For each right of the operator, what is done to a job so that the operator has to use it.

A right that the chart gives and that is not here has no use: `test_operator_rights.py` compares.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .rights import Scene

Step = Callable[[Scene], None]


def running(step: Step) -> Step:
    """That step, once the job's pods run: the right is not needed before."""

    def after(scene: Scene) -> None:
        scene.wait_until_running()
        step(scene)

    return after


def changed(**spec: Any) -> Step:
    """A change of the spec of a running job."""
    return running(lambda scene: scene.job.patch(spec))


def hidden(kind: str, name: str) -> Step:
    """An object that is there and that the operator does not see, so that its name is taken."""
    return running(lambda scene: scene.hide(kind, name))


def nothing(scene: Scene) -> None:
    """The start of a job is enough."""


def hide_the_run(scene: Scene) -> None:
    """The ConfigMap of the run, whose name has a hash in it."""
    scene.hide("configmap", f"sums-run-{scene.job.status['templateHash']}")


def lose_a_certificate(scene: Scene) -> None:
    """All three are issued anew when the next pod is made: one Secret is gone, two are written over."""
    scene.delete("secret", "sums-tls-operator")
    scene.delete("pod", "sums-worker-0")


def render_anew(scene: Scene) -> None:
    """A suspended job that goes on otherwise than before needs its old ConfigMap no more."""
    scene.job.patch({"suspend": True})
    scene.job.wait_condition("Suspended", seconds=30)
    scene.job.patch({"suspend": False, "coordinator": {"labels": {"team": "a"}}})


def end(scene: Scene) -> None:
    """A finished job whose time to live is over."""
    scene.job.patch({"ttlSecondsAfterFinished": 1})
    (coordinator,) = scene.job.ready("coordinator")
    scene.kwok.finish(coordinator)


def contend(scene: Scene) -> None:
    """Change the job so often that the operator writes onto a state that it has not seen yet."""
    for turn in range(120):
        patch = {
            "metadata": {"annotations": {"turn": str(turn)}},
            "spec": {"workers": {"replicas": 1 + turn % 2}},
        }
        path = f"/apis/dartes.dev/v1alpha1/namespaces/{scene.namespace}/dartesjobs/sums"
        scene.release.cluster.request("PATCH", path, patch)


STRICT = changed(networkPolicy={"mode": "Strict"})
OPEN = changed(networkPolicy={"mode": "None"})
DRAINED = changed(disruptionBudget="None")

STEPS: Mapping[str, Step] = {
    "create pods": nothing,
    "create services": nothing,
    "create configmaps": nothing,
    "create persistentvolumeclaims": nothing,
    "create secrets": nothing,
    "create networkpolicies": nothing,
    "create poddisruptionbudgets": nothing,
    "create events": nothing,
    "patch dartesjobs/status": nothing,
    "get pods": hidden("pod", "sums-coordinator"),
    "get services": hidden("service", "sums-coordinator"),
    "get configmaps": running(hide_the_run),
    "get persistentvolumeclaims": hidden("pvc", "sums-checkpoint"),
    "get secrets": running(lose_a_certificate),
    "get networkpolicies": OPEN,
    "get poddisruptionbudgets": DRAINED,
    "get dartesjobs": running(contend),
    "patch persistentvolumeclaims": changed(checkpoint={"retentionPolicy": "Retain"}),
    "patch secrets": running(lose_a_certificate),
    "patch networkpolicies": STRICT,
    "delete pods": changed(workers={"replicas": 1}),
    "delete configmaps": running(render_anew),
    "delete networkpolicies": OPEN,
    "delete poddisruptionbudgets": DRAINED,
    "delete dartesjobs": running(end),
}
"""What makes an operator use a right in its first life."""

RESTARTED = ("patch events", "patch poddisruptionbudgets")
"""Used by an operator that finds what an earlier one has written."""

OWNERS: Mapping[str, tuple[Step, str]] = {
    "update dartesjobs/finalizers": (nothing, "cannot set blockOwnerDeletion"),
    "delete persistentvolumeclaims": (
        changed(checkpoint={"retentionPolicy": "Retain"}),
        "cannot set an ownerRef on a resource you can't delete",
    ),
}
"""Asked for by API servers that check owners, as OpenShift's do; with the words of those."""

READ = ("pods", "services", "configmaps", "persistentvolumeclaims", "dartesjobs")
"""Jobs last: a namespace whose jobs can't be listed is left out, and then nothing else of it is listed."""
LISTED = [f"list {resource}" for resource in READ]
WATCHED = [f"watch {resource}" for resource in READ]
