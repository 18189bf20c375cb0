"""Whose weights are believed: digests compared, doubts that end only by rebuilding."""

import pytest

from dartes_coordinator.replicas import ReplicaError, Replicas
from dartes_coordinator.store import Attestation


def attest(replicas: Replicas, worker: str, digest: str, rebuilt: bool = False, iteration: int = 0) -> bool:
    return replicas.attest(Attestation(iteration, worker, digest, rebuilt), present=["present"])


def in_doubt() -> Replicas:
    """u and v disagree."""
    replicas = Replicas()
    attest(replicas, "u", "right")
    assert attest(replicas, "v", "wrong")
    return replicas


def test_equal_digests_are_agreed_upon() -> None:
    replicas = Replicas()
    assert replicas.agreed is None
    assert not attest(replicas, "u", "x")
    assert not attest(replicas, "v", "x")
    assert replicas.agreed == "x"


def test_where_digests_differ_nobody_is_believed() -> None:
    replicas = in_doubt()
    assert replicas.agreed is None
    assert replicas.mismatches == 1
    assert all(replicas.must_rebuild(w) for w in ("u", "v", "present"))
    assert not replicas.must_rebuild("somebody new")


def test_the_first_rebuilt_digest_settles_and_the_others_still_rebuild() -> None:
    replicas = in_doubt()
    assert not attest(replicas, "v", "right", rebuilt=True)
    assert replicas.agreed == "right"
    assert not replicas.must_rebuild("v")
    assert replicas.must_rebuild("u")
    assert not attest(replicas, "u", "right", rebuilt=True)
    assert not replicas.must_rebuild("u")
    assert replicas.mismatches == 1


def test_a_digest_of_weights_that_were_not_rebuilt_does_not_count_in_doubt() -> None:
    replicas = in_doubt()
    attest(replicas, "u", "right")
    assert replicas.agreed is None
    attest(replicas, "newcomer", "right")  # back after a break, with the weights it had
    assert replicas.must_rebuild("newcomer")
    assert replicas.agreed is None


def test_a_rebuild_at_an_older_iteration_counts_when_the_worker_has_caught_up() -> None:
    replicas = in_doubt()
    replicas.iteration = 7
    attest(replicas, "u", "base", rebuilt=True, iteration=0)
    assert not attest(replicas, "u", "right", iteration=7)
    assert replicas.agreed == "right"
    assert replicas.mismatches == 1


def test_being_away_does_not_settle_a_doubt() -> None:
    replicas = in_doubt()
    replicas.advance(1)
    assert replicas.must_rebuild("v")
    attest(replicas, "v", "wrong", iteration=1)
    assert replicas.agreed is None
    attest(replicas, "u", "right", rebuilt=True, iteration=1)
    assert replicas.agreed == "right"


def test_rebuilt_weights_that_disagree_are_an_error() -> None:
    replicas = in_doubt()
    attest(replicas, "u", "right", rebuilt=True)
    with pytest.raises(ReplicaError, match="worker v.*faulty"):
        attest(replicas, "v", "wrong", rebuilt=True)


def test_a_latecomer_that_disagrees_with_settled_weights_rebuilds_alone() -> None:
    replicas = in_doubt()
    attest(replicas, "u", "right", rebuilt=True)
    assert not attest(replicas, "late", "wrong")
    assert replicas.must_rebuild("late")
    assert replicas.agreed == "right"


def test_a_new_process_under_an_old_name_is_compared_with_its_forerunner() -> None:
    replicas = Replicas()
    attest(replicas, "u", "x")
    assert attest(replicas, "u", "y")


def test_a_new_disagreement_needs_new_rebuilds() -> None:
    replicas = in_doubt()
    attest(replicas, "u", "right", rebuilt=True)
    attest(replicas, "v", "right", rebuilt=True)
    replicas.advance(1)
    attest(replicas, "u", "a", iteration=1)
    assert attest(replicas, "v", "b", iteration=1)
    attest(replicas, "u", "a", iteration=1)
    assert replicas.agreed is None


def test_an_earlier_rebuild_does_not_count_in_a_new_disagreement() -> None:
    replicas = in_doubt()
    attest(replicas, "u", "right", rebuilt=True)
    replicas.advance(1)
    attest(replicas, "x", "a", iteration=1)
    assert attest(replicas, "y", "b", iteration=1)
    assert not attest(replicas, "u", "a", iteration=1)  # was away when it began, and has not rebuilt since
    assert replicas.must_rebuild("u")
    assert replicas.agreed is None


def test_digests_of_other_iterations_are_not_compared() -> None:
    replicas = Replicas(iteration=3)
    attest(replicas, "u", "x", iteration=3)
    assert not attest(replicas, "v", "y", iteration=2)
    assert replicas.agreed == "x"


def test_what_was_agreed_upon_is_remembered_by_iteration() -> None:
    replicas = Replicas()
    attest(replicas, "u", "zero")
    replicas.advance(1)
    replicas.advance(2)
    attest(replicas, "u", "two", iteration=2)
    assert [replicas.agreed_at(k) for k in range(4)] == ["zero", None, "two", None]
