"""The operator's rights are what it needs: each is taken away in turn, and is missed by name.

One release looks after a namespace for each right, in which its Role lacks just that one; a job there is led
to where the right is used. Pods are on fake nodes.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from .held import CommandFailedError, HeldCluster
from .jobs import Job, until
from .kwok_jobs import Kwok, spec_on_kwok
from .lacking import lacking
from .releases import Releases
from .rights import Right, Scene, messages
from .rights_used import (
    DRAINED,
    LISTED,
    OPEN,
    OWNERS,
    RESTARTED,
    STEPS,
    STRICT,
    WATCHED,
    end,
    lose_a_certificate,
    render_anew,
)

# One fixture leads a job to each of some forty rights.
pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.full, pytest.mark.timeout(900)]

TELL_SECONDS = 60.0

ALL = [*STEPS, *RESTARTED, *OWNERS, *LISTED, *WATCHED]
Told = Mapping[str, list[str]]


@pytest.fixture(scope="module")
def scenes(cluster: HeldCluster, releases: Releases, kwok: Kwok) -> Iterator[Mapping[str, Scene]]:
    """A namespace for each right, and one for none ("whole"), all looked after by one operator."""
    names = ["whole", "lists", *STEPS, *RESTARTED, *OWNERS, *WATCHED]
    namespaces = {name: cluster.make_namespace("rights") for name in names}
    try:
        release = releases(*namespaces.values(), kwok=True)
        yield {name: Scene(release, kwok, namespace) for name, namespace in namespaces.items()}
    finally:
        for namespace in namespaces.values():
            cluster.delete_namespace(namespace)


def create(scene: Scene) -> Job:
    """The job of a scene; it has everything that an operator may be asked for."""
    spec = spec_on_kwok(disruptionBudget="BlockVoluntary")
    return Job.create(scene.release.api, scene.namespace, "sums", spec)


def without(scene: Scene, name: str) -> None:
    """Take one right away; fails where the chart does not give it."""
    rights = scene.rights()
    left = [right for right in rights if str(right) != name]
    assert len(left) == len(rights) - 1, f"the chart does not give: {name}"
    scene.give(left)


def the_right(scene: Scene, name: str) -> Right:
    """A right of the chart by its name."""
    (found,) = [right for right in scene.rights() if str(right) == name]
    return found


@pytest.fixture(scope="module")
def told(cluster: HeldCluster, scenes: Mapping[str, Scene]) -> Told:
    """Where the want of each right is told; empty where it is not."""
    whole = scenes["whole"]
    words = {name: the_right(whole, name).words for name in ALL}
    words |= {name: said for name, (_, said) in OWNERS.items()}
    found: dict[str, list[str]] = {}
    steps = {**STEPS, **{name: step for name, (step, _) in OWNERS.items()}}
    for name in steps:
        without(scenes[name], name)
    for name in (*steps, *RESTARTED):
        create(scenes[name])
    for name, step in steps.items():
        # What does not come as far as that is not told of, and fails under its own name.
        with contextlib.suppress(AssertionError):
            step(scenes[name])
    collect(scenes, words, steps, found)
    return found | told_after_a_restart(scenes, words) | told_of_listing(scenes["lists"], words)


def collect(
    scenes: Mapping[str, Scene], words: Mapping[str, str], names: Iterable[str], found: dict[str, list[str]]
) -> None:
    """Look until each right is told of, or the time is over."""

    def look() -> bool:
        log = messages(scenes["whole"].release.operator_log())
        for name in names:
            found[name] = found.get(name) or scenes[name].told(words[name], log)
        return all(found[name] for name in names)

    try:
        until(look, "all is told", TELL_SECONDS)
    except AssertionError:
        return


def told_after_a_restart(scenes: Mapping[str, Scene], words: Mapping[str, str]) -> dict[str, list[str]]:
    """The rights that an operator needs where an earlier one has been at work, and those to watch.

    A watch that has begun goes on when the right to it is taken away, so these too need a new operator.
    """
    for replicas in (3, 2):
        scenes["patch events"].job.patch({"workers": {"replicas": replicas}})
        scenes["patch events"].job.wait_ready("worker", replicas)
        scenes["patch events"].settle()
    scenes["patch poddisruptionbudgets"].wait_until_running()
    for name in (*RESTARTED, *WATCHED):
        without(scenes[name], name)
    release = scenes["whole"].release
    release.scale_operator(0)
    release.scale_operator(1)
    # The same event as before; and the budget is written again with whatever else has changed.
    scenes["patch events"].job.patch({"workers": {"replicas": 3}})
    scenes["patch poddisruptionbudgets"].job.patch({"workers": {"replicas": 3}})
    found: dict[str, list[str]] = {}
    collect(scenes, words, (*RESTARTED, *WATCHED), found)
    return found


def told_of_listing(scene: Scene, words: Mapping[str, str]) -> dict[str, list[str]]:
    """The rights to list, taken one after the other from an operator that starts: only its log can tell."""
    whole, release = scene.rights(), scene.release
    found: dict[str, list[str]] = {}
    release.scale_operator(0)
    try:
        without(scene, LISTED[0])
        release.kubectl("scale", release.operator, "--replicas=1", "-n", release.namespace)
        for name in LISTED:
            scene.give([right for right in whole if str(right) != name])
            found[name] = ["log"] if is_logged(scene, words[name]) else []
    finally:
        scene.give(whole)
    release.kubectl("rollout", "status", release.operator, "-n", release.namespace, "--timeout=60s")
    return found


def is_logged(scene: Scene, words: str) -> bool:
    """Whether the operator says these words about this namespace in time."""

    def look() -> bool:
        try:
            log = messages(scene.release.operator_log())
        except CommandFailedError:
            return False  # it starts
        return any(words in message and scene.namespace in message for message in log)

    try:
        until(look, words, TELL_SECONDS)
    except AssertionError:
        return False
    return True


def test_every_right_of_the_chart_is_taken_away_once(scenes: Mapping[str, Scene]) -> None:
    assert [str(right) for right in scenes["whole"].rights()] == sorted(ALL)


@pytest.mark.parametrize("name", [name for name in ALL if name not in OWNERS])
def test_a_right_that_is_taken_away_is_missed_by_name(
    told: Told, scenes: Mapping[str, Scene], name: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("told_in", ", ".join(told[name]))
    assert told[name], scenes[name].job.describe() if name in scenes else "not in the log"


@pytest.mark.parametrize("name", OWNERS)
def test_what_api_servers_ask_that_check_owners_is_missed_by_name(
    told: Told, scenes: Mapping[str, Scene], checks_owners: bool, name: str
) -> None:
    if not checks_owners:
        lacking("this API server does not check owners (OwnerReferencesPermissionEnforcement)")
    assert told[name], scenes[name].job.describe()


@pytest.fixture(scope="module")
def checks_owners(cluster: HeldCluster, scenes: Mapping[str, Scene]) -> bool:
    """Whether somebody who may make ConfigMaps alone may not make one that holds a job back."""
    namespace, user = scenes["whole"].namespace, "system:serviceaccount:nowhere:owner"
    for words in (
        ("role", "owner", "--verb=create", "--resource=configmaps"),
        ("rolebinding", "owner", "--role=owner", f"--user={user}"),
    ):
        cluster.kubectl("create", *words, "-n", namespace)
    owner = {
        "apiVersion": "dartes.dev/v1alpha1",
        "kind": "DartESJob",
        "name": "sums",
        "uid": "0",
        "blockOwnerDeletion": True,
    }
    metadata = {"name": "owned", "ownerReferences": [owner]}
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    try:
        cluster.kubectl("create", "--as", user, "-n", namespace, "--dry-run=server", "-f", "-", input=body)
    except CommandFailedError as failure:
        return "blockOwnerDeletion" in failure.words
    return False


def test_with_all_its_rights_an_operator_is_refused_nothing(scenes: Mapping[str, Scene], told: Told) -> None:
    scene = scenes["whole"]
    create(scene)
    scene.wait_until_running()
    for step in (
        lose_a_certificate,
        render_anew,
        STRICT,
        OPEN,
        DRAINED,
        STEPS["patch persistentvolumeclaims"],
    ):
        step(scene)
        scene.settle()
    scene.wait_until_running()
    end(scene)
    until(lambda: not scene.job.exists(), "the job is deleted", 60.0)
    refused = [
        message
        for message in messages(scene.release.operator_log())
        if "cannot" in message and scene.namespace in message
    ]
    assert refused == []


def test_a_right_that_is_given_back_is_used_at_the_next_try(scenes: Mapping[str, Scene], told: Told) -> None:
    scene = scenes["create services"]
    assert scene.job.pods("coordinator") == []
    scene.give(scenes["whole"].rights())
    # Tried again each minute.
    scene.job.wait_ready("worker", 2, seconds=90)
    scene.job.wait_condition("ResourcesReady", seconds=30)
