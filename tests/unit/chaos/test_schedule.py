"""The schedule of chaos: the same for a seed, everything in it, nothing that excludes itself."""

import pytest

from tests.chaos.acts import PROPERTIES, Act, Scope, Target
from tests.chaos.platform import FAULTS
from tests.chaos.schedule import LULL_EVERY, Layout, Step, is_lull, make_schedule, strikes

LAYOUT = Layout({"red": "a", "green": "a", "blue": "b"}, small="blue")
SEEDS = range(12)


def schedule(seed: int, steps: int = 300) -> tuple[Step, ...]:
    return make_schedule(seed, steps, LAYOUT, frozenset(Act))


def test_a_seed_gives_the_same_schedule_again_and_another_seed_another() -> None:
    assert schedule(7) == schedule(7)
    assert schedule(7) != schedule(8)


def test_a_longer_schedule_begins_like_a_shorter_one() -> None:
    assert schedule(3, 40)[:20] == schedule(3, 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_act_comes_up_as_often_as_its_weight_says(seed: int) -> None:
    made = schedule(seed)
    bag = sum(properties.weight for properties in PROPERTIES.values())
    for act, properties in PROPERTIES.items():
        times = sum(step.act is act for step in made)
        assert times >= (len(made) // bag - 1) * properties.weight, act


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_of_api_fault_comes_up_before_one_comes_up_again(seed: int) -> None:
    count = PROPERTIES[Act.API_FAULT].variants
    assert count == len(FAULTS)
    drawn = [step.choice for step in schedule(seed) if step.act is Act.API_FAULT]
    assert len(drawn) >= count
    assert sorted(drawn[:count]) == list(range(count))


def test_acts_that_are_left_out_never_come_up() -> None:
    alone = frozenset(act for act in Act if PROPERTIES[act].scope is Scope.NAMESPACES)
    made = make_schedule(1, 200, LAYOUT, alone)
    assert {step.act for step in made} == alone


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lasts_ends_before_the_next_lull_is_over(seed: int) -> None:
    for step in schedule(seed):
        assert (step.until is None) == (PROPERTIES[step.act].lasts is None)
        if step.until is not None:
            lull = step.number + (-step.number % LULL_EVERY)
            assert step.number < step.until <= lull + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_lasts_is_done_twice_at_once(seed: int) -> None:
    lasting: list[Step] = []
    for step in schedule(seed):
        lasting = [other for other in lasting if other.until is not None and other.until > step.number]
        properties = PROPERTIES[step.act]
        for other in lasting:
            if properties.target is Target.NODES:
                assert PROPERTIES[other.act].target is not Target.NODES, "one node in trouble at a time"
            if properties.target is Target.OPERATOR:
                assert other.act is not Act.OPERATOR_AWAY, "there is no operator to be hit"
            if properties.target in (Target.JOB, Target.SMALL_JOB):
                assert (other.act, other.on) != (Act.SUSPENDED, step.on), "a suspended job has no pods"
            if step.act is Act.JOB_DELETED:
                assert (other.act, other.on) != (Act.VOLUME_FILLED, step.on)
            assert (other.act, other.on) != (step.act, step.on)
        lasting.append(step)


def test_only_the_job_on_a_small_volume_has_it_filled() -> None:
    filled = {step.on for seed in SEEDS for step in schedule(seed) if step.act is Act.VOLUME_FILLED}
    assert filled == {"blue"}


def test_all_jobs_and_both_namespaces_are_hit() -> None:
    made = schedule(5)
    assert {step.on for step in made if PROPERTIES[step.act].target is Target.JOB} == set(LAYOUT.jobs)
    assert {step.on for seed in SEEDS for step in schedule(seed) if step.act is Act.QUOTA_SET} == {"a", "b"}


def test_a_lull_comes_now_and_then_and_after_the_last_step() -> None:
    last = 2 * LULL_EVERY + 3
    lulls = [number for number in range(1, last + 1) if is_lull(number, last)]
    assert lulls == [LULL_EVERY, 2 * LULL_EVERY, last]


def test_strikes_differ_by_round_and_spare_the_first_incarnation() -> None:
    plans = {strikes(1, job, number) for job in LAYOUT.jobs for number in range(5)}
    assert len(plans) > 10
    assert strikes(1, "red", 1) == strikes(1, "red", 1)
    assert not any(entry.endswith("@1") for plan in plans for entry in plan.split(","))
