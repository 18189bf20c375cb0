"""What a job's pods read from elsewhere: where its problems are, its tasks' own files, and with what Secrets.

It says what is named and how that appears in pods; whether it exists is for the kubelet to find.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dartes.spec.base import SecretReference
from dartes.spec.dataset import ProblemSelection
from dartes.spec.job import JobSpec
from dartes.spec.source import Scheme, parse_source
from dartes.spec.task import TaskSpec
from dartes_operator.resources.pod import Mount, secret_env

REWARD_PATH: Final = "/etc/dartes/reward"
"""Below it, a folder for each ConfigMap that a task of kind `python` names."""

_REWARD_MODELS: Final = ("rewardModel", "costModel")
_TOKEN_KEY: Final = "token"


@dataclass(frozen=True, slots=True)
class Credential:
    """A Secret that a source is fetched with, and the field of the job that names it."""

    path: str
    scheme: Scheme
    secret: str


def selections(spec: JobSpec) -> Iterator[tuple[str, ProblemSelection]]:
    """Everything that chooses problems, with the path of its field."""
    yield "spec.dataset", spec.dataset
    for kind, chosen in (("stages", spec.dataset.stages), ("mix", spec.dataset.mix)):
        for position, one in enumerate(chosen):
            yield f"spec.dataset.{kind}[{position}]", one
    for kind, sets in (("sets", spec.evaluation.sets), ("holdouts", spec.evaluation.holdouts)):
        for position, entry in enumerate(sets):
            yield f"spec.evaluation.{kind}[{position}].dataset", entry.dataset


def tasks(spec: JobSpec) -> Iterator[TaskSpec]:
    """Every task that grades answers of this job."""
    yield spec.task
    own = (
        *(stage.task for stage in spec.dataset.stages),
        *(part.task for part in spec.dataset.mix),
        *(entry.task for entry in spec.evaluation.all_sets),
    )
    yield from (task for task in own if task is not None)


def dataset_sources(spec: JobSpec) -> Iterator[str]:
    """Every place that problems are read from."""
    for _, selection in selections(spec):
        if selection.source:
            yield selection.source


def reward_model_sources(spec: JobSpec) -> Iterator[str]:
    """Every `pvc://` place of a model that grades answers; others are a service, or on the hub."""
    for task in tasks(spec):
        for name in _REWARD_MODELS:
            value = task.options.get(name)
            if isinstance(value, str) and value.startswith(f"{Scheme.PVC.value}://"):
                yield value


def reward_mounts(spec: JobSpec) -> tuple[Mount, ...]:
    """One mount for each ConfigMap with a reward function: whole, so that a wrong key can be named."""
    named = {
        task.python.config_map.name
        for task in tasks(spec)
        if task.python is not None and task.python.config_map is not None
    }
    return tuple(
        Mount(f"reward-{position}", f"{REWARD_PATH}/{name}", {"configMap": {"name": name}}, read_only=True)
        for position, name in enumerate(sorted(named))
    )


def data_credentials(spec: JobSpec) -> Iterator[Credential]:
    """The Secrets of all data sets."""
    for path, selection in selections(spec):
        if selection.secret_ref is not None:
            source = selection.source
            scheme = parse_source(source).scheme if source else Scheme.FILE
            yield Credential(f"{path}.secretRef.name", scheme, selection.secret_ref.name)


def credentials(spec: JobSpec) -> Iterator[Credential]:
    """The Secrets of the model and of all data sets, which workers have together."""
    reference: SecretReference | None = spec.model.secret_ref
    if reference is not None:
        yield Credential("spec.model.secretRef.name", Scheme.HUB, reference.name)
    yield from data_credentials(spec)


def credential_conflicts(spec: JobSpec) -> Iterator[str]:
    """Yield, as `path: why`, each second Secret for one kind of place: a process has one token for it."""
    first: dict[Scheme, Credential] = {}
    for found in credentials(spec):
        other = first.setdefault(found.scheme, found)
        if other.secret != found.secret:
            yield (
                f"{found.path}: {found.secret} is not {other.secret}, which {other.path} names for "
                f"{found.scheme.value}:// too, and a pod has one set of credentials for each kind of place; "
                "use one Secret that may read both"
            )


def token_env(found: Iterator[Credential]) -> tuple[dict[str, Any], ...]:
    """The hub's token among these Secrets, as environment."""
    name = next((one.secret for one in found if one.scheme is Scheme.HUB), None)
    return () if name is None else (secret_env("HF_TOKEN", name, _TOKEN_KEY),)


def storage_env_from(spec: JobSpec) -> tuple[dict[str, Any], ...]:
    """All keys of the other data sets' Secrets, as environment (AWS_ACCESS_KEY_ID and the like)."""
    named = {one.secret for one in data_credentials(spec) if one.scheme is not Scheme.HUB}
    return tuple({"secretRef": {"name": name}} for name in sorted(named))
