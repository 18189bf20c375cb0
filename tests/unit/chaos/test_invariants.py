"""What must hold of histories, ends and objects: each violation is caught."""

from typing import Any

import pytest

from tests.chaos.invariants import (
    EXPECTED_KINDS,
    ORPHAN_SECONDS,
    Truth,
    orphans,
    wrong_end,
    wrong_history,
    wrong_inventory,
    wrong_operator,
)

from .kit import JOB, pod

TRUTH = Truth(("r0", "r1", "r2"), "journal", "weights")
THE_JOB = {"metadata": {"name": "red", "namespace": "a", "uid": JOB}}
RIGHT = {
    "phase": "Succeeded",
    "checkpoint": {"lastIteration": 3, "journalHash": "journal", "digest": "weights"},
}


def thing(kind: str, name: str, job: str = JOB, owner: str = JOB) -> dict[str, Any]:
    owners = [{"uid": owner, "controller": True}]
    labels = {"dartes.dev/job-uid": job}
    metadata = {
        "name": name,
        "namespace": "a",
        "uid": f"{kind}/{name}",
        "labels": labels,
        "ownerReferences": owners,
    }
    return {"kind": kind, "metadata": metadata}


def owned(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["metadata"]["ownerReferences"] = [{"uid": JOB, "controller": True}]
    return manifest


def at_rest() -> list[dict[str, Any]]:
    objects = [
        thing(kind, f"{kind}-{number}") for kind, count in EXPECTED_KINDS.items() for number in range(count)
    ]
    pods = [pod("c" * 16, "coordinator", ""), pod("0" * 16, index="0"), pod("1" * 16, index="1")]
    return [*objects, *map(owned, pods)]


def test_a_beginning_of_the_true_history_is_right() -> None:
    assert wrong_history("red", ["r0", "r1"], TRUTH, known=2) == []
    assert wrong_history("red", [], TRUTH, known=0) == []


@pytest.mark.parametrize(
    ("rows", "words"), [(["r0", "x"], "row 1 of 2"), (["r0", "r1", "r2", "r3"], "row 3 of 4")]
)
def test_a_row_that_differs_or_is_too_much_is_caught(rows: list[str], words: str) -> None:
    (found,) = wrong_history("red", rows, TRUTH, known=0)
    assert words in found


def test_rows_that_are_lost_are_caught() -> None:
    (found,) = wrong_history("red", ["r0"], TRUTH, known=2)
    assert "2 iterations were committed, and 1 are left" in found


def test_the_true_end_is_right() -> None:
    assert wrong_end("red", RIGHT, TRUTH) == []


@pytest.mark.parametrize("field", ["lastIteration", "journalHash", "digest"])
def test_any_other_end_is_caught(field: str) -> None:
    status = {**RIGHT, "checkpoint": {**RIGHT["checkpoint"], field: "other"}}  # type: ignore[dict-item]
    (found,) = wrong_end("red", status, TRUTH)
    assert field in found


def test_a_complete_job_in_another_phase_is_caught() -> None:
    assert len(wrong_end("red", {**RIGHT, "phase": "Running"}, TRUTH)) == 1


def test_exactly_the_jobs_objects_are_right() -> None:
    assert wrong_inventory(THE_JOB, at_rest(), workers=2) == []


def test_one_failed_pod_may_be_kept() -> None:
    assert wrong_inventory(THE_JOB, [*at_rest(), owned(pod("f" * 16, exit_code=1))], workers=2) == []


@pytest.mark.parametrize("kind", sorted(EXPECTED_KINDS))
def test_an_object_too_much_or_missing_is_caught(kind: str) -> None:
    objects = at_rest()
    (found,) = wrong_inventory(THE_JOB, [*objects, thing(kind, "another")], workers=2)
    assert kind in found
    first = next(each for each in objects if each["kind"] == kind)
    assert len(wrong_inventory(THE_JOB, [o for o in objects if o is not first], workers=2)) == 1


def test_an_object_without_the_right_owner_is_caught() -> None:
    objects = at_rest()
    objects[0]["metadata"]["ownerReferences"] = []
    (found,) = wrong_inventory(THE_JOB, objects, workers=2)
    assert "not owned" in found


def test_a_worker_too_much_is_caught() -> None:
    found = wrong_inventory(THE_JOB, [*at_rest(), owned(pod("2" * 16, index="2"))], workers=2)
    assert "3 worker pods live, not 2" in found[0]


def test_a_second_coordinator_is_caught() -> None:
    found = wrong_inventory(THE_JOB, [*at_rest(), owned(pod("d" * 16, "coordinator", "x"))], workers=2)
    assert "2 coordinator pods live" in found[0]


def test_ended_pods_that_pile_up_are_caught() -> None:
    kept = [owned(pod(f"{n}" * 16, exit_code=1)) for n in "78"]
    found = wrong_inventory(THE_JOB, [*at_rest(), *kept], workers=2)
    assert "2 ended worker pods are kept" in found[0]


def test_other_jobs_objects_are_not_this_jobs() -> None:
    assert wrong_inventory(THE_JOB, [*at_rest(), thing("Secret", "x", job="other")], workers=2) == []


def test_an_object_without_its_job_is_an_orphan_after_a_while() -> None:
    left = [thing("ConfigMap", "left", job="dead")]
    found, since = orphans(left, {JOB}, {}, now=1000.0)
    assert found == []
    found, since = orphans(left, {JOB}, since, now=1000.0 + ORPHAN_SECONDS)
    assert found == []
    found, _ = orphans(left, {JOB}, since, now=1001.0 + ORPHAN_SECONDS)
    assert "orphan: ConfigMap a/left" in found[0]


def test_objects_of_jobs_that_are_there_are_no_orphans_and_time_starts_anew() -> None:
    found, since = orphans([thing("ConfigMap", "x")], {JOB}, {"ConfigMap/x": 0.0}, now=1e6)
    assert (found, since) == ([], {})


def test_an_operator_that_ends_by_itself_is_caught() -> None:
    last = {"terminated": {"exitCode": 1, "reason": "Error"}}
    container = {"restartCount": 2, "lastState": last}
    pods = [{"metadata": {"name": "operator", "uid": "u"}, "status": {"containerStatuses": [container]}}]
    assert wrong_operator(pods, {"u": 2}) == []
    (found,) = wrong_operator(pods, {"u": 1})
    assert "exit code 1" in found
