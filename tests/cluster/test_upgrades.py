"""Upgrades and rollbacks while jobs run: they restart nothing, mix no images, and a run comes out the same.

The release before this one is made from the present sources with another version, another rendering of pods
and a coordinator that knows fewer fields (testcluster/previous.py), so that operator and coordinator of two
releases meet here. One long job takes it all in turn, as in test_promises.py.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dartes import __version__
from testcluster.previous import AWAY_SECONDS, VERSION

from .definitions import PATH as DEFINITION_PATH
from .definitions import given_back, remove
from .held import HeldCluster, NotHereError
from .jobs import Job, Object, make_disturbed_engine, manifest, spec_of, uid, until, with_disturbed_engine
from .kwok_jobs import Kwok, spec_on_kwok
from .lacking import lacking
from .previous_release import LATER_COLUMN, LATER_FIELD, load_previous_images, previous_chart
from .reference import Reference, assert_same_end, goes_on, run_undisturbed
from .release import CHART, Release
from .releases import Releases

WORKERS = 2
ITERATIONS = 110
PACE_SECONDS = 0.1
"""Iterations that must follow a change before its test is content."""

PRESENT_AWAY_SECONDS = 30


def upgrade(release: Release, *options: str) -> None:
    """Upgrade to the present chart with the words of docs/install.md."""
    release.cluster.helm(
        "upgrade", release.name, str(CHART), "-n", release.namespace, "--reset-then-reuse-values", "--wait",
        *options,
    )  # fmt: skip


def image_of(pod: Mapping[str, Any]) -> str:
    """The tag of a pod's image."""
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def patience_of(pod: Mapping[str, Any]) -> set[int]:
    """How long a pod bears a lost node: what the two releases render otherwise."""
    return {each["tolerationSeconds"] for each in pod["spec"]["tolerations"] if "tolerationSeconds" in each}


def pods_of(job: Job) -> dict[str, str]:
    """The job's live pods by name, with their uids."""
    live = [*job.live("coordinator"), *job.live("worker")]
    return {pod["metadata"]["name"]: uid(pod) for pod in live}


def lose(job: Job, role: str) -> Object:
    """Delete a pod of a role; returns the one that takes its place."""
    before = pods_of(job)
    victim = job.live(role)[0]
    job.api.core.delete_namespaced_pod(victim["metadata"]["name"], job.namespace)

    def successor() -> Object | None:
        return next((pod for pod in job.ready(role) if uid(pod) not in before.values()), None)

    return until(successor, f"a new {role}", 90)


def test_an_upgrade_that_changes_images_and_defaults_touches_no_pod_of_a_run(
    kwok: Kwok, releases: Releases, namespace: str
) -> None:
    release = releases(namespace, kwok=True)
    job = Job.create(release.api, namespace, "pinned", spec_on_kwok())
    job.wait_ready("worker", WORKERS)
    job.wait_condition("WorkersReady")
    before = pods_of(job)
    operator = uid(release.operator_pod())
    upgrade(release, "--set=jobDefaults.images.worker.tag=later", "--set=jobDefaults.nodeSelector.zone=b")
    assert uid(release.operator_pod()) != operator, "the operator is another one"
    made = lose(job, "worker")
    assert image_of(made) == __version__
    assert "zone" not in made["spec"]["nodeSelector"]
    assert {name: each for name, each in pods_of(job).items() if each != uid(made)}.items() < before.items()
    later = Job.create(release.api, namespace, "later", spec_on_kwok())
    until(lambda: later.live("worker"), "a new job's workers", 30)
    assert {image_of(pod) for pod in later.live("worker")} == {"later"}


def long_spec() -> Object:
    """Small members, many iterations of at least 0.8 s."""
    spec = spec_of(
        es__iterations=ITERATIONS,
        es__populationSize=16,
        es__batchSize=64,
        evaluation={"everyIterations": 100, "sets": []},
        checkpoint={"volume": {"size": "64Mi"}, "retentionPolicy": "Delete"},
        workers__replicas=WORKERS,
    )
    spec["workers"] = with_disturbed_engine(spec["workers"], PACE_SECONDS)
    return spec


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The same job without a cluster and without upgrades."""
    return run_undisturbed("long", long_spec(), tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def release(
    cluster: HeldCluster, releases: Releases, module_namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Release:
    """The release before this one, upgraded by the tests below."""
    try:
        load_previous_images(cluster)
    except NotHereError as error:
        lacking(str(error))
    return releases(module_namespace, chart=previous_chart(tmp_path_factory.mktemp("previous")))


@pytest.fixture(scope="module")
def job(release: Release, module_namespace: str, reference: Reference) -> Iterator[Job]:
    """The long job, started by the release before this one."""
    make_disturbed_engine(release.api, module_namespace)
    job = Job.create(release.api, module_namespace, "long", long_spec())
    job.wait_ready("worker", WORKERS)
    job.wait_rows(1)
    yield job
    if job.exists():  # it goes with the definition, too
        job.delete()


def goes_on_and_says_so(job: Job, reference: Reference) -> None:
    """Some more iterations are committed and told in the status, and all are those of the reference."""
    since = len(job.rows())
    goes_on(job, reference, since)
    until(lambda: job.iteration > since, f"a status beyond iteration {since}", 60)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_an_upgrade_restarts_nothing_and_the_operator_understands_an_older_coordinator(
    release: Release, job: Job, reference: Reference
) -> None:
    pods = [*job.live("coordinator"), *job.live("worker")]
    assert {image_of(pod) for pod in (*pods, release.operator_pod())} == {VERSION}
    before = pods_of(job)
    upgrade(release)
    assert image_of(release.operator_pod()) == __version__
    goes_on_and_says_so(job, reference)
    assert pods_of(job) == before
    assert job.status["phase"] == "Running"
    assert "bug" not in release.operator_log()


@pytest.mark.full
@pytest.mark.parametrize("role", ["worker", "coordinator"])
def test_a_pod_lost_after_an_upgrade_comes_back_as_its_run_was_pinned(
    release: Release, job: Job, reference: Reference, role: str
) -> None:
    assert image_of(release.operator_pod()) == __version__, "it has been upgraded"
    made = lose(job, role)
    assert image_of(made) == VERSION
    assert patience_of(made) == {AWAY_SECONDS}
    goes_on_and_says_so(job, reference)


@pytest.mark.full
def test_a_rollback_restarts_nothing_and_lost_pods_come_back_as_pinned(
    release: Release, job: Job, reference: Reference
) -> None:
    before = pods_of(job)
    release.cluster.helm("rollback", release.name, "-n", release.namespace, "--wait")
    assert image_of(release.operator_pod()) == VERSION
    goes_on_and_says_so(job, reference)
    assert pods_of(job) == before
    made = lose(job, "worker")
    assert (image_of(made), patience_of(made)) == (VERSION, {AWAY_SECONDS})
    assert "bug" not in release.operator_log()


@pytest.mark.full
def test_a_job_resumed_after_an_upgrade_goes_on_with_the_images_of_the_new_release(
    release: Release, job: Job, reference: Reference
) -> None:
    upgrade(release)
    job.patch({"suspend": True})
    job.wait_condition("Suspended", seconds=60)
    job.patch({"suspend": False})
    pods = [*job.wait_ready("coordinator", 1), *job.wait_ready("worker", WORKERS)]
    assert {image_of(pod) for pod in pods} == {__version__}
    assert set.union(*map(patience_of, pods)) == {PRESENT_AWAY_SECONDS}
    goes_on_and_says_so(job, reference)


@pytest.mark.full
def test_a_run_trains_to_its_end_without_an_operator_and_comes_out_as_one_that_nothing_happened_to(
    release: Release, releases: Releases, job: Job, reference: Reference
) -> None:
    release.uninstall()
    before = pods_of(job)
    until(lambda: not job.live("coordinator"), "the run is over", 240)
    assert job.status["phase"] == "Running", "nobody was there to tell"
    releases(job.namespace)
    job.wait_complete(60)
    assert_same_end(job, reference)
    ended = {uid(pod) for role in ("coordinator", "worker") for pod in job.pods(role)}
    assert ended <= set(before.values()), "nothing was made again"


@pytest.mark.full
def test_an_upgrade_brings_the_newer_definition_and_a_rollback_takes_it_back(
    cluster: HeldCluster, releases: Releases, namespace: str, tmp_path: Path
) -> None:
    def has_later_parts() -> tuple[bool, bool]:
        version = (cluster.find(DEFINITION_PATH) or {})["spec"]["versions"][0]
        fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        columns = {column["name"] for column in version["additionalPrinterColumns"]}
        return LATER_FIELD in fields, LATER_COLUMN in columns

    with given_back(cluster):
        older = previous_chart(tmp_path, older_definition=True)
        # Else its other owners would keep what the older one does not have.
        remove(cluster)
        release = releases(
            namespace, chart=older, options=("--set=crds.create=true", f"--set=image.tag={__version__}")
        )
        assert has_later_parts() == (False, False)
        uid_before = uid(cluster.find(DEFINITION_PATH) or {})
        spec = spec_on_kwok(suspend=True)
        job = Job.create(release.api, namespace, "kept", spec)
        text = json.dumps(manifest("new", namespace, spec_on_kwok(suspend=True, **{LATER_FIELD: 60})))
        assert LATER_FIELD in cluster.refused("apply", "-f", "-", input=text)
        upgrade(release)
        assert has_later_parts() == (True, True)
        cluster.kubectl("apply", "-f", "-", input=text)
        assert Job(release.api, namespace, "new").get()["spec"][LATER_FIELD] == 60
        cluster.helm("rollback", release.name, "-n", release.namespace, "--wait")
        assert has_later_parts() == (False, False)
        assert uid(cluster.find(DEFINITION_PATH) or {}) == uid_before
        assert LATER_FIELD not in Job(release.api, namespace, "new").get()["spec"]
        assert job.exists()
