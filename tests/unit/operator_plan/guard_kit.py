"""What the guard says to a job: a spec in, the refusals out."""

from typing import Any

from dartes.spec import InvalidJobError, job_from_object
from dartes_operator.resources.identity import identity_of
from dartes_operator.resources.pod import PodDefaults
from dartes_operator.resources.run_config import Images, PodTemplateError, Run, render

from .kit import job

IMAGES = Images("c", "w", "v")
DEFAULTS = PodDefaults(pull_policy="IfNotPresent", pull_secrets=(), tolerations=(), node_selector={})


def rendered(**spec: Any) -> Run:
    """The run that a spec, beside the kit's own, makes."""
    manifest = job(**spec)
    return render(identity_of(manifest), job_from_object(manifest).job, IMAGES, DEFAULTS)[0]


def refused(**spec: Any) -> tuple[str, ...]:
    """What is refused, each as `path: why`, by the job's model where it can, else by the guard."""
    try:
        rendered(**spec)
    except InvalidJobError as error:
        return tuple(f"{problem.path}: {problem.message}" for problem in error.problems)
    except PodTemplateError as error:
        return error.problems
    return ()


def template(**spec: Any) -> dict[str, Any]:
    """The workers' fields with a pod template of this pod spec."""
    return {"podTemplate": {"spec": spec}}


def container(**fields: Any) -> dict[str, Any]:
    """The workers' fields with a pod template that adds this to the worker's own container."""
    return template(containers=[{"name": "worker", **fields}])
