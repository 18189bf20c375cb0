"""What counts as a step of an operator, and which of the plan's actions it belongs to."""

import json

import pytest

from tests.cluster.faults import Request
from tests.cluster.lives import action_of, is_of_event, is_of_status, step_of

TEAM = "/api/v1/namespaces/team"
JOB = "/apis/dartes.dev/v1alpha1/namespaces/team/dartesjobs/life"
POLICY = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies/life"


def request(method: str, target: str, **document: object) -> Request:
    """One with a manifest as its body."""
    return Request(method, target, json.dumps(document).encode())


@pytest.mark.parametrize(
    ("asked", "step", "action"),
    [
        (request("POST", f"{TEAM}/pods", metadata={"name": "a"}), "create pods a", "Create"),
        (request("POST", f"{TEAM}/pods?dryRun=All", metadata={"name": "a"}), "rehearse pods a", None),
        (request("POST", f"{TEAM}/configmaps", metadata={"name": "life-run-1f"}),
         "create configmaps of the run", "Create"),
        (request("GET", f"{TEAM}/secrets/a"), "get secrets a", "ReadCertificates"),
        (request("POST", f"{TEAM}/secrets", metadata={"name": "a"}), "create secrets a", "IssueCertificates"),
        (request("PATCH", POLICY), "patch networkpolicies life", "Apply"),
        (request("PATCH", f"{TEAM}/persistentvolumeclaims/c"), "patch persistentvolumeclaims c", "Patch"),
        (request("DELETE", f"{TEAM}/pods/a"), "delete pods a", "Delete"),
        (request("DELETE", JOB), "delete dartesjobs life", None),
        (request("POST", f"{TEAM}/events", reason="Resumed"), "create events Resumed", None),
        (request("PATCH", f"{JOB}/status", status={"progress": {}}), "patch dartesjobs/status numbers", None),
    ],
)  # fmt: skip
def test_a_step_is_named_and_belongs_to_an_action(asked: Request, step: str, action: str | None) -> None:
    assert step_of(asked) == step
    assert action_of(step) == action


def test_looking_is_no_step() -> None:
    assert step_of(Request("GET", f"{TEAM}/pods")) is None
    assert step_of(Request("GET", f"{TEAM}/pods?watch=true")) is None
    assert step_of(Request("GET", f"{TEAM}/pods/a")) is None


def test_statuses_are_told_apart_by_phase_and_reasons() -> None:
    conditions = [
        {"type": "WorkersReady", "reason": "Ready"},
        {"type": "CoordinatorReady", "reason": "Starting"},
    ]
    step = step_of(request("PATCH", f"{JOB}/status", status={"phase": "Running", "conditions": conditions}))
    assert step == "patch dartesjobs/status Running CoordinatorReady=Starting,WorkersReady=Ready"
    assert is_of_status(step)
    assert not is_of_event(step)
