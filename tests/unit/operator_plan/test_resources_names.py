"""Names and labels: one place, one spelling, within what Kubernetes allows."""

import pytest

from dartes.spec.checkpoint import CheckpointSpec
from dartes_operator.resources.claim import claim_name, makes_claim
from dartes_operator.resources.identity import JobIdentity, Role
from dartes_operator.resources.run_config import HASH_DIGITS

LONGEST = JobIdentity("a" * 40, "lab", "0f9a4c1e-6f7b-4b6e-9d57-3a2b1c0d9e8f")


def test_the_longest_job_name_leaves_room_for_every_name_made_of_it() -> None:
    names = [
        LONGEST.coordinator,
        LONGEST.export,
        LONGEST.worker_policy,
        LONGEST.worker(1023, 9),
        *(LONGEST.tls_secret(role) for role in Role),
    ]
    assert max(map(len, names)) <= 63
    # No label bears it.
    assert len(LONGEST.run_config("0" * HASH_DIGITS)) <= 253


def test_labels_are_within_their_length() -> None:
    assert max(map(len, LONGEST.labels("coordinator").values())) <= 63


def test_a_worker_has_its_plain_name_until_that_is_taken() -> None:
    assert LONGEST.worker(3, 0).endswith("-worker-3")
    assert LONGEST.worker(3, 2).endswith("-worker-3-2")


@pytest.mark.parametrize(
    ("checkpoint", "name", "made"),
    [
        ({}, "addition-checkpoint", True),
        ({"volume": {"claimName": "mine"}}, "mine", False),
        ({"resumeFrom": {"claimName": "old"}}, "old", False),
        ({"resumeFrom": {"jobName": "first"}}, "first-checkpoint", False),
    ],
)
def test_the_claim_is_the_one_that_the_job_names(
    checkpoint: dict[str, object], name: str, made: bool
) -> None:
    job = JobIdentity("addition", "lab", "uid")
    spec = CheckpointSpec.model_validate(checkpoint)
    assert (claim_name(job, spec), makes_claim(spec)) == (name, made)
