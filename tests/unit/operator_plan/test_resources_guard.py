"""What a job may not ask of its pods, each with the path that asks for it."""

from typing import Any

import pytest

from dartes_operator.resources import guard, guard_security, guard_volumes

from .forbidden import FORBIDDEN
from .guard_kit import container, refused, template


def _problems(workers: dict[str, Any], role: str = "workers") -> tuple[str, ...]:
    return refused(**{role: workers})


def _volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "own", **source}]}


@pytest.mark.parametrize(("workers", "path"), FORBIDDEN)
def test_what_is_refused_is_named_by_its_path(workers: dict[str, Any], path: str) -> None:
    found = _problems(workers)
    assert len(found) == 1
    assert found[0].startswith(path)


def test_all_that_the_guard_forbids_by_name_is_in_the_table() -> None:
    named = {
        *guard._FIXED_POD,
        *guard._FIXED_CONTAINER,
        *guard_security._HOST,
        *guard_security._REFUSED_CONTEXT,
        *guard_volumes._PROJECTED_CREDENTIALS,
    }
    assert named <= {path.rpartition(".")[2] for _, path in FORBIDDEN}
    calls = {
        f"{at}.{call}.host"
        for at in (
            *guard_security._PROBES,
            *(f"lifecycle.{hook}" for hook in guard_security._HOOKS),
        )
        for call in guard_security._CALLS
    }
    assert all(any(path.endswith(call) for _, path in FORBIDDEN) for call in calls)


def test_the_coordinators_fields_are_held_to_the_same_rules() -> None:
    (found,) = _problems({"podTemplate": {"spec": {"hostNetwork": True}}}, role="coordinator")
    assert found.startswith("spec.coordinator.podTemplate.spec.hostNetwork")


def test_every_problem_is_named_at_once() -> None:
    asked = template(hostNetwork=True, hostPID=True, containers=[{"name": "worker", "image": "x"}])
    assert len(_problems({**asked, "labels": {"dartes.dev/x": "y"}})) == 4


@pytest.mark.parametrize(
    "workers",
    [
        {},
        template(hostNetwork=False, automountServiceAccountToken=False, dnsPolicy="Default"),
        template(securityContext={"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}),
        template(initContainers=[{"name": "fetch", "image": "x", "restartPolicy": "Always"}]),
        container(env=[{"name": "MINE", "value": "x"}], ports=[{"containerPort": 9000}]),
        template(
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}],
            containers=[{"name": "worker", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        ),
        {**_volume(secret={"secretName": "mine"}), "volumeMounts": [{"name": "own", "mountPath": "/own"}]},
        {"labels": {"team": "a"}, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        template(containers=[{"name": "log", "volumeMounts": [{"name": "cache", "mountPath": "/c"}]}]),
    ],
)
def test_what_a_user_may_ask_for_is_let_through(workers: dict[str, Any]) -> None:
    assert _problems(workers) == ()
