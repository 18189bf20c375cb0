"""No way leads into a pod for the certificates of a job's pods, whichever job's they are."""

from typing import Any

import pytest

from dartes.spec import job_from_object
from dartes.spec.base import SecretReference
from dartes_operator.resources.guard_secrets import source_secrets
from dartes_operator.resources.identity import identity_of
from dartes_operator.resources.run_config import PodTemplateError, export_template

from .guard_kit import DEFAULTS, container, refused, rendered, template
from .kit import job

SPEC = "spec.workers.podTemplate.spec"
MAIN = f"{SPEC}.containers[0]"
NAMES = [
    f"{name}-tls-{role}" for name in ("addition", "another") for role in ("coordinator", "worker", "operator")
]
BUCKET = "s3://bucket/out"


def _env(secret: str) -> list[dict[str, Any]]:
    return [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "tls.key"}}}]


def _env_from(secret: str) -> list[dict[str, Any]]:
    return [{"secretRef": {"name": secret}}]


def _volume(secret: str) -> list[dict[str, Any]]:
    return [{"name": "own", "secret": {"secretName": secret}}]


def _projected(secret: str) -> list[dict[str, Any]]:
    return [{"name": "own", "projected": {"sources": [{"secret": {"name": secret}}]}}]


def _csi(secret: str) -> list[dict[str, Any]]:
    return [{"name": "own", "csi": {"driver": "d", "nodePublishSecretRef": {"name": secret}}}]


def _ways(secret: str) -> list[tuple[dict[str, Any], str]]:
    """Every way of the workers' fields to a Secret, and the path by which it is refused."""
    ways: list[tuple[dict[str, Any], str]] = []
    for volumes, end in (
        (_volume(secret), "secret.secretName"),
        (_projected(secret), "projected.sources[0].secret.name"),
        (_csi(secret), "csi.nodePublishSecretRef.name"),
    ):
        ways.append(({"volumes": volumes}, f"spec.workers.volumes[0].{end}"))
        ways.append((template(volumes=volumes), f"{SPEC}.volumes[0].{end}"))
    env, env_from = _env(secret), _env_from(secret)
    of_env, of_from = "env[0].valueFrom.secretKeyRef.name", "envFrom[0].secretRef.name"
    ways.append(({"env": env}, f"spec.workers.{of_env}"))
    ways.append(({"envFrom": env_from}, f"spec.workers.{of_from}"))
    ways.append((container(env=env), f"{MAIN}.{of_env}"))
    ways.append((container(envFrom=env_from), f"{MAIN}.{of_from}"))
    for key in ("containers", "initContainers"):
        added = {"name": "added", "image": "x"}
        ways.append((template(**{key: [{**added, "env": env}]}), f"{SPEC}.{key}[0].{of_env}"))
        ways.append((template(**{key: [{**added, "envFrom": env_from}]}), f"{SPEC}.{key}[0].{of_from}"))
    return ways


@pytest.mark.parametrize("secret", NAMES)
def test_no_pod_reads_the_credentials_of_a_jobs_pods(secret: str) -> None:
    for workers, path in _ways(secret):
        (found,) = refused(workers=workers)
        assert found.startswith(f"{path}: {secret} is not allowed")
        assert "credentials of a job's own pods; give the Secret another name" in found


@pytest.mark.parametrize("secret", ["mine", "addition-tls", "tls-worker", "addition-tls-worker-2"])
def test_other_secrets_are_let_through(secret: str) -> None:
    for workers, path in _ways(secret):
        assert refused(workers=workers) == (), path


def test_the_coordinators_fields_name_no_such_secret_either() -> None:
    (found,) = refused(coordinator={"envFrom": _env_from("addition-tls-operator")})
    assert found.startswith("spec.coordinator.envFrom[0].secretRef.name: ")


@pytest.mark.parametrize(
    ("owner", "fields"),
    [("model", {}), ("export", {"destination": BUCKET})],
)
def test_no_source_or_destination_is_reached_with_such_a_secret(owner: str, fields: dict[str, Any]) -> None:
    (found,) = refused(**{owner: {**fields, "secretRef": {"name": "another-tls-operator"}}})
    assert found.startswith(f"spec.{owner}.secretRef.name: another-tls-operator is not allowed")
    assert refused(**{owner: {**fields, "secretRef": {"name": "mine"}}}) == ()


def test_no_data_set_is_fetched_with_such_a_secret() -> None:
    spec = job_from_object(job()).job.spec
    dataset = spec.dataset.model_copy(update={"secret_ref": SecretReference(name="another-tls-worker")})
    (found,) = source_secrets(spec.model_copy(update={"dataset": dataset}))
    assert found.startswith("spec.dataset.secretRef.name: another-tls-worker is not allowed")


def test_a_destination_that_changed_in_the_run_is_held_to_the_same_rule() -> None:
    run = rendered()
    manifest = job(export={"destination": BUCKET, "secretRef": {"name": "addition-tls-operator"}})
    export = job_from_object(manifest).job.spec.export
    pinned = job_from_object(job()).job.spec
    assert export is not None
    with pytest.raises(PodTemplateError, match=r"^spec\.export\.secretRef\.name: addition-tls-operator"):
        export_template(run, identity_of(manifest), pinned, export, DEFAULTS)
