"""Opening a run folder: new, resumed, finished, of another job, or with less left to do than is done."""

import json
from pathlib import Path
from typing import Any

import pytest

from dartes.errors import ConfigurationError
from dartes.spec.load import load_job
from dartes.state import RunFolder, RunReader
from dartes_coordinator.loading import load_run
from dartes_coordinator.plan import EvaluationSetPlan, RunPlan
from dartes_coordinator.start import open_plan, open_run, plan_of
from dartes_coordinator.store import Store

from .kit import Clock, FakeWorker, expected_hashes, finished_folder, opened, plan, run_until, settings


def resumed_to_end(folder: RunFolder, run: RunPlan) -> FakeWorker:
    """Open a folder, let one worker do the rest and return it."""
    clock, worker = Clock(), FakeWorker("late", run)
    coordinator = opened(folder, run, clock)
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock)
    coordinator.close()
    return worker


def test_a_finished_run_leaves_nothing_to_do_and_gets_its_summary_back(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan())
    before = json.loads(folder.summary.read_text())
    folder.summary.unlink()
    assert open_plan(folder, plan(), Clock()) is None
    after = json.loads(folder.summary.read_text())
    assert after.pop("incarnations") == before.pop("incarnations") + 1
    assert after == before


def test_a_resumed_run_that_grew_goes_on_as_one_that_was_longer_from_the_start(tmp_path: Path) -> None:
    longer = plan(settings(iterations=8))
    folder = finished_folder(tmp_path, plan())
    resumed_to_end(folder, longer)
    progress = load_run(folder, longer).progress
    assert progress.hashes == expected_hashes(longer)[0]
    # Iteration 5 was evaluated as the last one and 4 as a multiple of two; neither is evaluated again.
    assert [e.iteration for e in progress.evaluations] == [0, 2, 4, 5, 6, 8]


def test_an_evaluation_set_added_to_a_finished_run_is_evaluated_on_the_final_weights(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan())
    more = plan(
        evaluation_sets={"held-out": EvaluationSetPlan(5), "new": EvaluationSetPlan(3)},
        data_digests={"train": "train-digest", "held-out": "held-out-digest", "new": "new-digest"},
    )
    resumed_to_end(folder, more)
    found = [(e.set_name, e.iteration) for e in load_run(folder, more).progress.evaluations]
    assert ("new", 5) in found
    assert len(found) == 5


@pytest.mark.parametrize("iteration", [0, 2, 5])
def test_a_run_can_be_opened_between_any_two_commits(tmp_path: Path, iteration: int) -> None:
    folder = finished_folder(tmp_path, plan(), iteration)
    resumed_to_end(folder, plan())
    assert load_run(folder, plan()).progress.hashes == expected_hashes(plan())[0]


def test_a_coordinator_killed_between_the_final_evaluation_and_the_finish_finishes_later(
    tmp_path: Path,
) -> None:
    folder, clock, worker = RunFolder(tmp_path), Clock(), FakeWorker("u", plan())
    coordinator = opened(folder, plan(), clock)
    worker.register(coordinator, clock())
    run_until(coordinator, [worker], clock, 5)
    worker.step(coordinator, clock())
    coordinator.run.ledger.finish = lambda _: None  # type: ignore[assignment, method-assign]  # killed before it
    worker.step(coordinator, clock())
    coordinator.close()
    again = opened(folder, plan(), clock)
    assert not again.run.round.leases.tasks
    assert not again.done
    worker.register(again, clock())  # attests, nothing else is left
    assert again.done


def refusal(folder: RunFolder, run: RunPlan) -> str:
    with pytest.raises(ConfigurationError) as caught:
        open_plan(folder, run, Clock())
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": settings(iterations=1)}, "es.iterations is 1, but 2 iterations are done"),
        ({"settings": settings(epochs=0)}, "es.epochs is 0, but the run is in its epoch 1"),
        (
            {"algorithm_digest": "x", "algorithm_fields": {"es.seed": 8, "es.populationSize": 4}},
            "es.seed was 7, is 8",
        ),
        ({"algorithm_digest": "x"}, "another version of dartes"),
        (
            {"data_digests": {"train": "x", "held-out": "held-out-digest"}},
            "the data set 'train' had digest train-digest, now x",
        ),
        ({"data_digests": {"train": "train-digest", "held-out": "x"}}, "the data set 'held-out'"),
    ],
)
def test_a_job_that_cannot_go_on_here_is_refused_and_changes_nothing(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    folder = finished_folder(tmp_path, plan(), 2)
    before = folder.store.read_bytes()
    assert words in refusal(folder, plan(**changes))
    assert folder.store.read_bytes() == before
    assert not folder.damaged.exists()


def test_a_set_that_was_left_out_for_one_start_comes_back_with_the_same_rows_only(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan(), 2)
    without = plan(evaluation_sets={}, data_digests={"train": "train-digest"})
    opened(folder, without).close()
    opened(folder, without).close()
    digests = {"train": "train-digest", "held-out": "other-digest"}
    other = plan(evaluation_sets={"held-out": EvaluationSetPlan(3)}, data_digests=digests)
    said = refusal(folder, other)
    assert "the data set 'held-out' had digest held-out-digest, now other-digest" in said
    assert "an evaluation set with other problems needs another name" in said
    resumed_to_end(folder, plan())
    assert load_run(folder, plan()).progress.hashes == expected_hashes(plan())[0]


def test_all_that_differs_is_named_at_once(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan(), 2)
    other = plan(
        settings(iterations=1, seed=8), algorithm_digest="x", data_digests={"train": "x", "held-out": "y"}
    )
    text = refusal(folder, other)
    for words in ("es.iterations", "es.seed", "'train'", "'held-out'"):
        assert words in text


def test_iterations_may_shrink_down_to_what_is_done(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan(), 2)
    shorter = plan(settings(iterations=2))
    resumed_to_end(folder, shorter)
    assert load_run(folder, shorter).progress.iteration == 2


def test_an_old_coordinator_cannot_commit_behind_the_back_of_one_that_has_loaded(tmp_path: Path) -> None:
    """The store is opened, and so the old one fenced, before the state is loaded."""
    folder, opened_at, load = RunFolder(tmp_path), [], load_run

    finished_folder(tmp_path, plan(), 2)

    def watched(*arguments: Any) -> Any:
        with RunReader.open(folder) as reader:
            opened_at.append(reader.meta_text("incarnation"))
        return load(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dartes_coordinator.start.load_run", watched)
        coordinator = opened(folder, plan())
    assert opened_at == [str(coordinator.incarnation)]


def test_a_run_marks_itself_as_running_until_it_is_done(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan())
    with RunReader.open(folder) as reader:
        assert reader.meta_text("status") == "done"
    opened(folder, plan(settings(iterations=6))).close()
    with RunReader.open(folder) as reader:
        assert reader.meta_text("status") == "running"


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan(), 1)
    store = Store.open(folder.store)
    store.put_meta({"schema_version": "99"})
    store.close()
    assert "version 99" in refusal(folder, plan())


def test_a_store_of_an_earlier_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = finished_folder(tmp_path, plan(), 1)
    store = Store.open(folder.store)
    store.put_meta({"schema_version": "1"})
    store.close()
    said = refusal(folder, plan())
    assert "state version 1, but this dartes reads version 2" in said
    assert "the version of dartes that wrote it, or start the job in a new folder" in said


STAGED = """
  dataset:
    stages:
      - {source: "builtin://addition", maxProblems: 24, iterations: 3}
      - {source: "builtin://arithmetic", maxProblems: 5, epochs: 1, task: {kind: arithmetic}}
"""


def test_a_stage_that_is_too_small_for_its_batches_is_refused_by_name(tmp_path: Path) -> None:
    text = JOB.replace(DATASET, STAGED).replace("iterations: 5, ", "")
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(
        ConfigurationError, match=r"spec\.dataset\.stages\[1\]: a batch takes 6 of its problems"
    ):
        plan_of("tiny", load_job(tmp_path / "job.yaml").job.spec, tmp_path)


def test_stages_and_holdouts_of_a_job_file_are_in_the_plan(tmp_path: Path) -> None:
    text = (
        JOB.replace(DATASET, STAGED)
        .replace("iterations: 5, ", "")
        .replace("maxProblems: 5, epochs", "epochs")
    )
    text += """    holdouts:
      - {name: other, samples: 2, temperature: 1.0, dataset: {source: "builtin://addition", maxProblems: 3}}
"""
    (tmp_path / "job.yaml").write_text(text)
    run = plan_of("tiny", load_job(tmp_path / "job.yaml").job.spec, tmp_path)
    assert run.problem_counts[0] == (24,)
    assert [(stage.iterations, stage.epochs) for stage in run.settings.stages] == [(3, None), (None, 1)]
    assert dict(run.evaluation_sets) == {
        "held-out": EvaluationSetPlan(5),
        "other": EvaluationSetPlan(3, samples=2, holdout=True),
    }
    assert run.first_set == "held-out"
    assert set(run.data_digests) == {"train", "held-out", "other"}


DATASET = """
  dataset: {source: "builtin://addition", split: train, maxProblems: 24}
"""
JOB = """
apiVersion: dartes.dev/v1alpha1
kind: DartESJob
metadata: {name: tiny}
spec:
  model: {source: "builtin://addition", dtype: Float32}
  dataset: {source: "builtin://addition", split: train, maxProblems: 24}
  task: {kind: addition}
  es: {populationSize: 4, sigma: 0.003, learningRate: 0.003, batchSize: 6, iterations: 5, seed: 7}
  evaluation:
    everyIterations: 2
    sets:
      - name: held-out
        dataset: {source: "builtin://addition", split: test, maxProblems: 5}
"""


def test_a_job_file_becomes_a_plan_and_a_run(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    loaded = load_job(tmp_path / "job.yaml")
    run = plan_of("tiny", loaded.job.spec, tmp_path)
    assert (run.problem_counts, run.evaluate_every) == (((24,),), 2)
    assert dict(run.evaluation_sets) == {"held-out": EvaluationSetPlan(5)}
    assert set(run.data_digests) == {"train", "held-out"}
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    coordinator = open_run(folder, loaded, Clock())
    assert coordinator is not None
    worker = FakeWorker("u", coordinator.run.plan)
    worker.register(coordinator, 0.0)
    run_until(coordinator, [worker], Clock())
    assert coordinator.done
