"""Runs of several stages and sets: committed, stored, resumed anywhere and told again, bit for bit."""

from pathlib import Path

import numpy as np
import pytest

from dartes.difficulty import SetSettings, StageSettings
from dartes.state import DamagedStoreError, RunFolder, RunReader, StoredIteration
from dartes.tasks.rules import Fitness, GradingRules
from dartes_coordinator.loading import check_deeply, load_run
from dartes_coordinator.plan import RunPlan
from dartes_coordinator.start import open_plan

from .kit import (
    Clock,
    FakeWorker,
    expected_hashes,
    finished_folder,
    opened,
    plan,
    run_until,
    settings,
)
from .scene import Scene
from .stored import change

SCORED = GradingRules(Fitness.SCORE, auxiliary_weight=0.5)
AGAINST_PARENT = GradingRules(Fitness.PASS, against_parent=True)
STAGES = (
    StageSettings(iterations=3),
    StageSettings(sets=(SetSettings(2.0), SetSettings(1.0, AGAINST_PARENT)), epochs=1),
    StageSettings(sets=(SetSettings(rules=SCORED),), iterations=2),
)
RUN = plan(settings(stages=STAGES), problem_counts=((24,), (12, 8), (10,)))
ITERATIONS = 9


def iterations_of(folder: RunFolder) -> list[StoredIteration]:
    with RunReader.open(folder) as reader:
        return list(reader.iterations())


def resumed_to_end(folder: RunFolder, run: RunPlan) -> None:
    clock, worker = Clock(), FakeWorker("late", run)
    coordinator = opened(folder, run, clock)
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock)
    coordinator.close()


def test_stages_follow_one_another_and_iterations_are_counted_on(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, RUN)
    stored = iterations_of(folder)
    assert [it.iteration for it in stored] == list(range(ITERATIONS))
    assert [it.stage for it in stored] == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    progress = load_run(folder, RUN).progress
    assert (progress.hashes, progress.state.digest()) == expected_hashes(RUN)
    assert open_plan(folder, RUN, Clock()) is None, "the run is finished"


@pytest.mark.parametrize("iteration", range(ITERATIONS + 1))
def test_a_run_resumed_inside_a_stage_or_at_its_border_ends_as_an_undisturbed_one(
    tmp_path: Path, iteration: int
) -> None:
    folder = finished_folder(tmp_path, RUN, iteration)
    resumed_to_end(folder, RUN)
    progress = load_run(folder, RUN).progress
    assert (progress.hashes, progress.state.digest()) == expected_hashes(RUN)


def test_the_parent_answers_where_passes_are_against_it_whatever_the_job_says(tmp_path: Path) -> None:
    stored = iterations_of(finished_folder(tmp_path, RUN))
    assert [it.parent_scores is not None for it in stored] == [it.stage == 1 for it in stored]
    assert [it.parent_passed is not None for it in stored] == [it.stage == 1 for it in stored]
    assert [it.scores is not None for it in stored] == [it.stage == 2 for it in stored]
    for it in stored:
        if it.parent_passed is not None:
            assert not it.parent_passed[it.problems >= 12].any(), "nobody wins against itself"


def test_a_pass_against_the_parent_is_a_higher_score_on_the_same_problem(tmp_path: Path) -> None:
    scene = Scene(tmp_path, RUN, "w")
    scene.to(3)
    while scene.iteration == 3:
        round_ = scene.coordinator.run.round
        scene.workers[0].step(scene.coordinator, scene.clock())
    (it,) = [it for it in iterations_of(scene.folder) if it.iteration == 3]
    assert it.parent_scores is not None
    compared = it.problems >= 12
    higher = round_.members.scores > round_.parent.scores[0]
    assert np.array_equal(it.passed[:, compared], higher[:, compared])
    assert np.array_equal(it.passed[:, ~compared], round_.members.passed[:, ~compared])
    assert higher[:, compared].any()


def test_leases_and_the_status_name_the_stage(tmp_path: Path) -> None:
    scene = Scene(tmp_path, RUN, "w")
    for iteration, stage in ((0, 0), (2, 0), (3, 1), (7, 2)):
        scene.to(iteration)
        lease = scene.lease(scene.workers[0])
        scene.workers[0].do(scene.coordinator, lease, scene.clock())
        while not lease.evaluate.problems:  # blocks of the evaluation set go out first
            lease = scene.lease(scene.workers[0])
            scene.workers[0].do(scene.coordinator, lease, scene.clock())
        assert lease.evaluate.stage == stage
        status = scene.coordinator.status()
        assert (status.stage, status.stages, status.total_is_estimate) == (stage, 3, True)
        assert status.total_iterations == ITERATIONS


@pytest.mark.parametrize(("iteration", "stage"), [(1, 1), (3, 0), (4, 2), (8, 1)])
def test_a_forged_stage_number_is_found(tmp_path: Path, iteration: int, stage: int) -> None:
    folder = finished_folder(tmp_path, RUN)
    change(folder.store, "UPDATE iterations SET stage = ? WHERE iteration = ?", stage, iteration)
    with pytest.raises(DamagedStoreError, match=f"iteration {iteration}: the stored stage differs"):
        check_deeply(folder, RUN, folder.store)
