"""Coordinator and workers as pods start them: a job file, a volume, probes, and no `dartes run` around."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dartes.errors import ExitCode
from dartes.pod import FAREWELL
from dartes.state import RunFolder, RunReader

from ..waiting import until
from .conftest import SPEC
from .harness import DARTES, EngineHook, Hold, held_run, run_to_end
from .outcome import Identity, identity, summary_of
from .pod_kit import Namespace, Pod, free_port, namespace
from .variants import Stage

JobWriter = Callable[..., Path]


@pytest.fixture
def team(job: JobWriter, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with the job of the integration tests."""
    with namespace(tmp_path / "team", job()) as made:
        yield made


@pytest.fixture(scope="module")
def finished(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Namespace, list[Pod]]]:
    """A namespace in which the job has run to its end, by a coordinator and two workers."""
    root = tmp_path_factory.mktemp("pods")
    with namespace(root / "team", stage.job("in-pods")) as made:
        pods = [made.worker("worker-0"), made.coordinator(), made.worker("worker-1")]
        for pod in pods:
            assert pod.ends_with() == ExitCode.DONE, pod.log
        yield made, pods


def held(team: Namespace, at: str) -> tuple[Hold, dict[str, str]]:
    """Variables of workers that stop inside a lease."""
    hold = Hold(team.root / "hold")
    return hold, {"DARTES_ENGINE": EngineHook.HELD_HASHING.value, **hold.environment(at)}


# A whole run ---------------------------------------------------------------------------------------


def test_pods_come_to_the_same_end_as_a_local_run(
    finished: tuple[Namespace, list[Pod]], reference: Identity
) -> None:
    assert identity(finished[0].folder.path) == reference


def test_the_coordinators_last_words_are_the_result(finished: tuple[Namespace, list[Pod]]) -> None:
    team, (_, coordinator, _) = finished
    summary, words = summary_of(team.folder.path), json.loads(coordinator.last_words())
    assert coordinator.last_words().count("\n") == 0
    with RunReader.open(team.folder) as reader:
        last = list(reader.iterations())[-1]
    assert words == {
        "iteration": SPEC["es"]["iterations"],
        "totalIterations": SPEC["es"]["iterations"],
        "epoch": last.epoch,
        "journalHash": summary["journal_hash"],
        "weightDigest": summary["weight_digest"],
        "trainPassRate": pytest.approx(last.passed.mean()),
        "evalAccuracy": summary["evaluations"]["held-out"]["after"]["accuracy"],
        "incarnation": 1,
    }


def test_workers_that_end_well_say_nothing_last(finished: tuple[Namespace, list[Pod]]) -> None:
    assert [pod.last_words() for pod in finished[1] if pod.name != "coordinator"] == ["", ""]


def test_every_line_of_every_log_is_json_and_names_its_pod(finished: tuple[Namespace, list[Pod]]) -> None:
    for pod in finished[1]:
        lines = pod.lines()
        assert lines, pod.name
        for line in lines:
            assert (line["job"], line["namespace"], line["pod"]) == ("job", "team", pod.name)
            assert {"time", "level", "logger", "message"} <= line.keys()
        assert lines[-1]["incarnation"] == 1, pod.name


def test_workers_keep_their_snapshots_to_themselves(finished: tuple[Namespace, list[Pod]]) -> None:
    team, _ = finished
    own = [path.name for k in (0, 1) for path in (team.root / f"worker-{k}-snapshots").glob("*.safetensors")]
    assert own, "the job has one written every four iterations"
    assert not team.folder.snapshots.exists(), "the coordinator's volume has none"


def test_the_volume_is_a_run_folder_for_every_command(finished: tuple[Namespace, list[Pod]]) -> None:
    folder = str(finished[0].folder.path)
    for command in (["status", folder, "--json"], ["journal", folder], ["verify", folder]):
        done = subprocess.run([*DARTES, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if command[0] == "status":
            assert json.loads(done.stdout)["phase"] == "Done"


def test_a_finished_volume_ends_a_new_coordinator_at_once(finished: tuple[Namespace, list[Pod]]) -> None:
    team, (_, first, _) = finished
    again = team.coordinator()
    assert again.ends_with(20.0) == ExitCode.DONE
    before, after = json.loads(first.last_words()), json.loads(again.last_words())
    assert after.pop("incarnation") > before.pop("incarnation")
    assert after == before


# Taking over ---------------------------------------------------------------------------------------


def test_a_volume_of_another_job_is_refused_by_the_names_of_the_fields(
    finished: tuple[Namespace, list[Pod]], stage: Stage
) -> None:
    team, _ = finished
    before = team.folder.job.read_bytes()
    pod = team.coordinator(stage.job("other", es__sigma=0.004, generation__maxNewTokens=7))
    assert pod.ends_with() == ExitCode.CONFIGURATION
    words = pod.last_words()
    assert "spec.es.sigma: was 0.003, now 0.004" in words
    assert "spec.generation.maxNewTokens: was 8, now 7" in words
    assert "Give the job another volume" in words
    assert words == pod.lines()[-1]["message"]
    assert team.folder.job.read_bytes() == before


def test_a_longer_job_goes_on_where_the_shorter_one_ended(
    finished: tuple[Namespace, list[Pod]], team: Namespace, job: JobWriter
) -> None:
    shutil.copytree(finished[0].root / "volume", team.root / "volume", dirs_exist_ok=True)
    team.job = job(es__iterations=SPEC["es"]["iterations"] + 2)
    coordinator, worker = team.coordinator(), team.worker()
    assert [coordinator.ends_with(), worker.ends_with()] == [0, 0], coordinator.log + worker.log
    assert json.loads(coordinator.last_words())["iteration"] == SPEC["es"]["iterations"] + 2
    assert "spec.es.iterations: was 14, now 16" in coordinator.log
    assert "is not kept here" in worker.log, "the snapshots that the coordinator knows lie elsewhere"


def test_a_late_coordinator_is_fenced_by_the_store(team: Namespace) -> None:
    hold, variables = held(team, "first:100")
    first = team.coordinator()
    worker = team.worker(**variables)
    until(hold.pids, "the worker inside a lease")
    team.port = free_port()
    second = team.coordinator()
    second.until_answers("/readyz")
    assert first.process.poll() is None, "no lock of the first one hinders the second"
    hold.open()
    assert first.ends_with() == ExitCode.DRAINED
    assert "incarnation 2 has taken over" in first.last_words()
    second.terminate()
    assert second.ends_with() == ExitCode.DRAINED
    worker.terminate()
    assert worker.ends_with() == ExitCode.DRAINED


# Coming and going ----------------------------------------------------------------------------------


def test_workers_wait_for_a_coordinator_and_outlive_one(team: Namespace, reference: Identity) -> None:
    hold, variables = held(team, "first:100")
    worker = team.worker(**variables)
    worker.until_answers("/readyz", 503)
    until(lambda: "does not answer; waiting for it" in worker.log, "the worker waits")
    first = team.coordinator()
    until(hold.pids, "the worker inside a lease")
    assert worker.answers("/readyz")
    first.kill()
    worker.until_answers("/readyz", 503)
    assert worker.answers("/healthz"), "a worker that waits is alive"
    second = team.coordinator()
    worker.until_answers("/readyz", 503)
    hold.open()
    assert [second.ends_with(), worker.ends_with()] == [0, 0], second.log + worker.log
    assert json.loads(second.last_words())["incarnation"] == 2
    assert identity(team.folder.path) == reference


def test_a_worker_waits_for_a_name_that_does_not_resolve_yet(team: Namespace) -> None:
    worker = team.worker(address="job-coordinator.no-such-namespace.invalid:7443")
    until(lambda: "does not answer; waiting for it" in worker.log, "the worker waits")
    assert worker.process.poll() is None
    worker.terminate()
    assert worker.ends_with(5.0) == ExitCode.DRAINED


def test_metrics_tell_of_a_run_under_way(team: Namespace) -> None:
    hold, variables = held(team, "first:100")
    coordinator, worker = team.coordinator(), team.worker(**variables)
    until(hold.pids, "the worker inside a lease")

    def value(pod: Pod, name: str) -> float:
        found = [line for line in pod.get("/metrics")[1].splitlines() if line.startswith(f"{name} ")]
        assert len(found) == 1, name
        return float(found[0].rpartition(" ")[2])

    done = value(coordinator, "dartes_coordinator_iteration")
    assert done >= 1
    assert value(coordinator, "dartes_coordinator_iteration_seconds_count") == done
    assert value(coordinator, "dartes_coordinator_members_evaluated_total") == 6 * done
    busy = 'dartes_coordinator_workers{state="evaluating"}'
    until(lambda: value(coordinator, busy) == 1, "the worker is seen at work")
    assert value(worker, "dartes_worker_iteration") == done
    assert value(worker, "dartes_worker_iterations_behind") == 0
    assert value(worker, 'dartes_worker_evaluations_total{kind="member"}') >= 6 * done
    assert value(worker, "dartes_worker_device_memory_bytes") > 2**20
    hold.open()
    assert [coordinator.ends_with(), worker.ends_with()] == [0, 0]


def test_a_local_run_opens_no_port_for_probes(job: JobWriter, tmp_path: Path) -> None:
    with held_run(job(), tmp_path / "run", "--workers", "1", at="first:10") as (run, hold):
        run.until(hold.pids, "a worker inside a lease")
        listening: dict[str, list[int]] = {}
        for role in ("coordinator", "worker-0"):
            process = run.find(role)
            assert process is not None
            connections = process.net_connections(kind="inet")
            listening[role] = [c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN]
        grpc_port = int(run.folder.endpoint.read_text().rpartition(":")[2])
        assert listening == {"coordinator": [grpc_port], "worker-0": []}
        hold.open()
        run.must_end_with(0)


def test_a_local_run_logs_for_people_whatever_its_surroundings_ask_for(
    job: JobWriter, tmp_path: Path
) -> None:
    last_words = tmp_path / "termination-log"
    surroundings = {"DARTES_LOG_FORMAT": "json", "DARTES_TERMINATION_LOG": str(last_words)}
    run_to_end(job(), tmp_path / "run", engine=EngineHook.HASHING, environment=surroundings)
    lines = RunFolder(tmp_path / "run").logs.joinpath("coordinator.log").read_text().splitlines()
    assert lines
    assert all(re.match(r"\d\d:\d\d:\d\d [A-Z]+ coordinator ", line) for line in lines)
    assert not last_words.exists()


# Ends ----------------------------------------------------------------------------------------------


def test_a_coordinator_stops_within_seconds_and_loses_nothing(team: Namespace) -> None:
    hold, variables = held(team, "first:100")
    coordinator, worker = team.coordinator(), team.worker(**variables)
    until(hold.pids, "the worker inside a lease")
    with RunReader.open(team.folder) as reader:
        before = reader.iteration_count()
    coordinator.terminate()
    assert coordinator.ends_with(5.0) == ExitCode.DRAINED
    with RunReader.open(team.folder) as reader:
        assert reader.iteration_count() == before >= 1
    assert worker.process.poll() is None


def test_a_worker_that_leaves_finishes_its_lease_first(team: Namespace) -> None:
    hold, variables = held(team, "first:100")
    coordinator, worker = team.coordinator(), team.worker(**variables)
    until(hold.pids, "the worker inside a lease")
    worker.terminate()
    until(lambda: worker.get("/healthz")[0] == 200, "it is still there")
    hold.open()
    assert worker.ends_with() == ExitCode.DRAINED
    drained, farewell = worker.lines()[-2:]
    assert drained["message"] == "drained"
    assert farewell["message"].startswith(FAREWELL)
    reissued = [line for line in coordinator.lines() if "handed out again" in line["message"]]
    assert reissued == [], "what it held was reported"


def test_a_lease_that_takes_longer_than_the_drain_is_given_up(job: JobWriter, tmp_path: Path) -> None:
    with namespace(tmp_path / "team", job(workers__scaleDown={"drainSeconds": 1})) as team:
        hold, variables = held(team, "first:100")
        coordinator, worker = team.coordinator(), team.worker(**variables)
        until(hold.pids, "the worker inside a lease")
        worker.terminate()
        assert worker.ends_with(10.0) == ExitCode.DRAINED
        until(lambda: "handed out again" in coordinator.log, "others get what it held")


def test_an_idle_worker_leaves_at_once(team: Namespace) -> None:
    worker = team.worker()
    until(lambda: "does not answer; waiting for it" in worker.log, "the worker waits")
    worker.terminate()
    assert worker.ends_with(5.0) == ExitCode.DRAINED


def test_a_worker_that_is_loading_its_model_leaves_at_once(team: Namespace) -> None:
    mark = team.root / "loading"
    worker = team.worker(DARTES_ENGINE="pod_engines:never_loaded", DARTES_TEST_LOADING=str(mark))
    until(mark.exists, "the engine is being loaded")
    assert worker.answers("/healthz")
    assert worker.answers("/readyz", 503)
    children = psutil.Process(worker.process.pid).children(recursive=True)
    assert children, "the graders"
    worker.terminate()
    assert worker.ends_with(5.0) == ExitCode.DRAINED
    until(lambda: not psutil.wait_procs(children, timeout=0)[1], "the graders end too")


@pytest.mark.parametrize("role", ["coordinator", "worker"])
def test_a_process_that_waits_for_a_file_leaves_at_once(team: Namespace, tmp_path: Path, role: str) -> None:
    team.job = tmp_path / "job.fifo"
    os.mkfifo(team.job)
    pod: Pod = getattr(team, role)()
    writer = -1

    def opened() -> bool:
        nonlocal writer
        try:
            writer = os.open(team.job, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False  # nobody reads yet
        return True

    until(opened, "the job file is being read")
    try:
        pod.terminate()
        assert pod.ends_with(5.0) == ExitCode.DRAINED
    finally:
        os.close(writer)


def test_a_bug_is_told_by_its_type_and_message_and_whole_in_the_log(team: Namespace) -> None:
    worker = team.worker(DARTES_ENGINE="pod_engines:broken")
    assert worker.ends_with() == ExitCode.BUG
    assert worker.last_words() == "ZeroDivisionError: layers without heads"
    line = worker.lines()[-1]
    assert line["level"] == "CRITICAL"
    assert line["exception"].splitlines()[-1] == "ZeroDivisionError: layers without heads"


def test_a_model_that_is_not_there_is_the_users_to_mend(job: JobWriter, tmp_path: Path) -> None:
    with namespace(tmp_path / "team", job(model__source="pvc://models/tiny")) as team:
        worker = team.worker()
        assert worker.ends_with() == ExitCode.CONFIGURATION
        assert "the claim 'models' is not mounted here" in worker.last_words()


def test_the_first_process_of_a_container_drains_as_well(team: Namespace) -> None:
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody make process namespaces")
    worker_arguments: list[Any] = ["-m", "dartes_worker", "--coordinator", "localhost:1", "--name", "w"]
    worker_arguments += ["--job", team.job, "--snapshots", team.root / "s", "--tls", team.root / "tls/worker"]
    log = team.root / "pid1.log"
    environment = {**os.environ, "DARTES_ENGINE": EngineHook.HASHING.value}
    with log.open("wb") as output:
        outer = subprocess.Popen(
            [*unshare, sys.executable, *map(str, worker_arguments)], stderr=output, env=environment
        )
    try:
        until(lambda: b"does not answer; waiting for it" in log.read_bytes(), "the worker waits")
        (inner,) = psutil.Process(outer.pid).children()
        inner.terminate()
        assert outer.wait(10.0) == ExitCode.DRAINED
    finally:
        outer.kill()
        outer.wait()
