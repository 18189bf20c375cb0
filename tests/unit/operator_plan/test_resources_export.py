"""The export pod takes the workers' furniture: what can't go into it is refused before the training."""

from typing import Any

import pytest

from dartes.spec import job_from_object
from dartes_operator.resources.identity import identity_of
from dartes_operator.resources.run_config import PodTemplateError, export_template

from .guard_kit import DEFAULTS, refused, rendered
from .kit import job

HUB = {"destination": "hf://org/trained", "secretRef": {"name": "hub-write"}}
CLASH: dict[str, Any] = {"volumes": [{"name": "checkpoint", "emptyDir": {}}]}


def _env(run: Any) -> list[dict[str, Any]]:
    env: list[dict[str, Any]] = run.pods["export"]["spec"]["containers"][0]["env"]
    return env


@pytest.mark.parametrize(
    ("workers", "path"),
    [
        (CLASH, "spec.workers.volumes[0].name: 'checkpoint' is taken"),
        (
            {"volumeMounts": [{"name": "own", "mountPath": "/var/lib/dartes/run"}]},
            "spec.workers.volumeMounts[0].mountPath: /var/lib/dartes/run would cover or enter",
        ),
        (
            {"volumeMounts": [{"name": "checkpoint", "mountPath": "/state"}]},
            "spec.workers.volumeMounts[0].name: 'checkpoint' is a volume of dartes' own",
        ),
    ],
)
def test_what_only_the_export_pod_has_is_refused_to_workers_at_once(
    workers: dict[str, Any], path: str
) -> None:
    (found,) = refused(workers=workers, export=HUB)
    assert found.startswith(path)
    assert "the export pod takes this from spec.workers too" in found
    assert refused(workers=workers) == ()


def test_what_neither_pod_may_have_is_named_once() -> None:
    workers = {
        "env": [{"name": "HF_TOKEN", "value": "theirs"}, {"name": "DARTES_POD", "value": "x"}],
        "volumes": [{"name": "run", "emptyDir": {}}],
        "volumeMounts": [{"name": "own", "mountPath": "/var/lib"}],
    }
    found = [problem.partition(": ")[0] for problem in refused(workers=workers, export=HUB)]
    assert found == [
        "spec.workers.env[1].name",
        "spec.workers.volumes[0].name",
        "spec.workers.volumeMounts[0].mountPath",
    ]


def test_an_export_that_is_asked_for_in_the_run_is_checked_too() -> None:
    export = job_from_object(job(export=HUB)).job.spec.export
    manifest = job(workers=CLASH)
    pinned = job_from_object(manifest).job.spec
    assert export is not None
    with pytest.raises(PodTemplateError, match="'checkpoint' is taken"):
        export_template(rendered(workers=CLASH), identity_of(manifest), pinned, export, DEFAULTS)


def test_the_destinations_token_wins_over_the_workers_own() -> None:
    workers = {"env": [{"name": "HF_TOKEN", "value": "theirs"}, {"name": "MINE", "value": "kept"}]}
    run = rendered(workers=workers, export=HUB)
    tokens = [entry for entry in _env(run) if entry["name"] == "HF_TOKEN"]
    reference = {"secretKeyRef": {"name": "hub-write", "key": "token"}}
    assert tokens == [{"name": "HF_TOKEN", "valueFrom": reference}]
    assert {"name": "MINE", "value": "kept"} in _env(run)


def test_the_workers_token_is_kept_where_the_export_has_none() -> None:
    own = {"name": "HF_TOKEN", "value": "theirs"}
    run = rendered(workers={"env": [own]}, export={"destination": "pvc://models/out"})
    assert own in _env(run)
