"""What the command line and the jobs' manifests are read as."""

import pytest

from tests.chaos.__main__ import chosen_acts
from tests.chaos.acts import PROPERTIES, Act, Scope
from tests.chaos.schedule import strikes
from tests.chaos.specs import KEPT_NODE, LAYOUT, cluster_spec, plain_spec, planned_strikes


def test_nodes_and_api_server_are_let_alone_unless_everything_is_asked_for() -> None:
    assert all(PROPERTIES[act].scope is Scope.NAMESPACES for act in chosen_acts(everything=False))
    assert chosen_acts(everything=True) == frozenset(Act)


def test_acts_are_chosen_by_their_names_or_a_word_of_them() -> None:
    assert chosen_acts(everything=True, only=["node"]) == {Act.NODE_DRAINED, Act.NODE_LOST}
    assert chosen_acts(everything=True, only=["quota_set", "SCALED"]) == {Act.QUOTA_SET, Act.SCALED}


def test_a_name_that_fits_nothing_is_refused_with_all_there_are() -> None:
    with pytest.raises(SystemExit, match="WORKER_DELETED"):
        chosen_acts(everything=True, only=["nonsense"])


@pytest.mark.parametrize("name", sorted(LAYOUT.jobs))
def test_the_job_in_the_cluster_trains_what_the_undisturbed_one_trains(name: str) -> None:
    there, here = cluster_spec(name, "after-commit:1@2"), plain_spec(name)
    for part in ("model", "dataset", "task", "generation", "es", "evaluation"):
        assert there.get(part) == here.get(part)


def test_the_jobs_differ_from_each_other() -> None:
    assert len({str(plain_spec(name)["es"]) for name in LAYOUT.jobs}) == len(LAYOUT.jobs)


def test_only_the_job_on_a_small_volume_stays_on_one_node() -> None:
    for name in LAYOUT.jobs:
        spec = cluster_spec(name, "")
        is_small = name == LAYOUT.small
        assert (spec["checkpoint"]["volume"]["storageClassName"] == "small") is is_small
        assert (spec["coordinator"].get("nodeSelector") == {"kubernetes.io/hostname": KEPT_NODE}) is is_small


def test_as_many_strikes_are_planned_as_the_manifest_says() -> None:
    plan = strikes(1, "red", 1)
    assert planned_strikes({"spec": cluster_spec("red", plan)}) == len(plan.split(","))
    assert planned_strikes({"spec": cluster_spec("red", "")}) == 0
    assert planned_strikes({"spec": {}}) == 0
