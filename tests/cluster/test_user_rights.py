"""Who may run jobs: whoever has one of the cluster's built-in roles in a namespace, and needs no other right.

Users are impersonated; all that they do is done by kubectl, with their rights alone.
"""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from .held import CommandFailedError, HeldCluster
from .jobs import Job, manifest, until
from .kwok_jobs import Kwok, spec_on_kwok
from .release import Release
from .releases import Releases

pytestmark = [pytest.mark.usefixtures("alone"), pytest.mark.full]

JOBS = "/apis/dartes.dev/v1alpha1/namespaces"
BUILT_IN = ("view", "edit", "admin")
OWN = "job-runner"
"""A user with the chart's own roles and none of the built-in ones: jobs, and nothing else."""


class User:
    """Somebody with rights in one namespace."""

    def __init__(self, release: Release, namespace: str, name: str) -> None:
        self.release = release
        self.namespace = namespace
        self.name = name

    def may(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl said to this user; CommandFailedError with its words where it says no."""
        return self.release.kubectl(*words, "-n", self.namespace, "--as", self.name, stdin=stdin)

    def may_not(self, *words: str, stdin: str | None = None) -> None:
        """See that the API server refuses it for want of a right."""
        with pytest.raises(CommandFailedError, match=r"[Ff]orbidden"):
            self.may(*words, stdin=stdin)

    def sees_jobs(self) -> bool:
        """Whether this user may read jobs yet."""
        try:
            self.may("get", "dej")
        except CommandFailedError:
            return False
        return True

    def creates(self, name: str) -> None:
        """Create a job."""
        body = json.dumps(manifest(name, self.namespace, spec_on_kwok()))
        self.may("create", "-f", "-", stdin=body)


@pytest.fixture(scope="module")
def namespace(cluster: HeldCluster) -> Iterator[str]:
    """The namespace in which the users have their roles."""
    name = cluster.make_namespace("users")
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def release(releases: Releases, kwok: Kwok, namespace: str) -> Release:
    """A release that brings the roles for users."""
    return releases(namespace, kwok=True, options=("--set=rbac.aggregate=true",))


@pytest.fixture(scope="module")
def users(release: Release, namespace: str) -> Mapping[str, User]:
    """A user of each built-in role, and one of the chart's own roles."""
    own = f"{release.namespace}-{release.name}"
    roles = {name: [name] for name in BUILT_IN} | {OWN: [f"{own}-view", f"{own}-edit"]}
    for user, given in roles.items():
        for number, role in enumerate(given):
            words = ("rolebinding", f"{user}-{number}", f"--clusterrole={role}", f"--user={user}")
            release.kubectl("create", *words, "-n", namespace)
    made = {user: User(release, namespace, user) for user in roles}
    # The controller that adds the chart's roles to the built-in ones takes a moment.
    until(lambda: all(user.sees_jobs() for user in made.values()), "the roles are given", 30.0)
    return made


@pytest.mark.parametrize("name", ["edit", OWN])
def test_an_editor_runs_a_job_from_its_creation_to_its_deletion(users: Mapping[str, User], name: str) -> None:
    user = users[name]
    user.creates(f"of-{name}")
    job = Job(user.release.api, user.namespace, f"of-{name}")
    job.wait_ready("worker", 2)
    user.may("scale", f"dej/of-{name}", "--replicas=3")
    job.wait_ready("worker", 3)
    user.may("patch", "dej", f"of-{name}", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    user.may("wait", f"dej/of-{name}", "--for=condition=Suspended", "--timeout=30s")
    assert "Suspended" in user.may("get", "dej", f"of-{name}", "-o", "wide")
    user.may("delete", "dej", f"of-{name}", "--wait=false")


def test_an_editors_rights_end_where_the_operators_begin(users: Mapping[str, User], kwok: Kwok) -> None:
    user = users["edit"]
    user.creates("bounded")
    Job(user.release.api, user.namespace, "bounded").wait_ready("worker", 2)
    status = '{"status":{"phase":"Succeeded"}}'
    user.may_not("patch", "dej", "bounded", "--subresource=status", "--type=merge", "-p", status)
    user.may_not("delete", "--raw", f"{JOBS}/{user.namespace}/dartesjobs")
    own = users[OWN]
    assert "bounded" in own.may("get", "dej", "-o", "name")
    # The operator makes pods and reads its Secrets with its own rights; the user of jobs has none of them.
    for words in (("get", "pods"), ("get", "secrets"), ("get", "configmaps"), ("get", "events")):
        own.may_not(*words)
    elsewhere = ("get", "dej", "--all-namespaces", "--as", user.name)
    with pytest.raises(CommandFailedError, match=r"[Ff]orbidden"):
        user.release.kubectl(*elsewhere)


def test_a_viewer_sees_everything_of_a_job_and_changes_nothing(users: Mapping[str, User]) -> None:
    users["edit"].creates("seen")
    Job(users["edit"].release.api, users["edit"].namespace, "seen").wait_ready("worker", 2)
    viewer = users["view"]
    assert "seen" in viewer.may("get", "dej")
    assert "Phase" in viewer.may("describe", "dej", "seen")
    assert viewer.may("get", "dej", "seen", "--subresource=scale", "-o", "jsonpath={.spec.replicas}") == "2"
    viewer.may_not("scale", "dej/seen", "--replicas=3")
    viewer.may_not("patch", "dej", "seen", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    viewer.may_not("delete", "dej", "seen", "--wait=false")
    viewer.may_not("create", "-f", "-", stdin=json.dumps(manifest("made", viewer.namespace, spec_on_kwok())))


@pytest.mark.parametrize("name", ["view", "edit"])
def test_the_plugin_shows_a_job_with_a_viewers_rights(
    users: Mapping[str, User], tmp_path: Path, name: str
) -> None:
    users["edit"].creates(f"shown-{name}")
    user = users[name]
    job = Job(user.release.api, user.namespace, f"shown-{name}")
    until(lambda: job.status.get("phase") == "Running", "the job runs", 60.0)
    said = plugin(user, tmp_path, "status", f"shown-{name}", "-n", user.namespace)
    assert f"shown-{name}" in said
    assert "Running" in said


def plugin(user: User, folder: Path, *words: str) -> str:
    """What `kubectl dartes` prints for a user whose kubeconfig says who they are."""
    config = json.loads(
        user.release.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
    )
    config["users"][0]["user"]["as"] = user.name
    (folder / "config").write_text(json.dumps(config))
    program = folder / "kubectl-dartes"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom dartes.cli.kube.main import main\nsys.exit(main())\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    kubectl = user.release.kubectl_command[0]
    path = os.pathsep.join([str(folder), str(Path(kubectl).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(folder / "config")}
    done = subprocess.run(
        [kubectl, "dartes", *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_admin_deletes_all_jobs_of_the_namespace_in_one_request(
    cluster: HeldCluster, users: Mapping[str, User]
) -> None:
    admin = users["admin"]
    admin.creates("last")
    path = f"{JOBS}/{admin.namespace}/dartesjobs"
    admin.may("delete", "--raw", path)
    left = cluster.request("GET", path)["items"]
    assert all("deletionTimestamp" in each["metadata"] for each in left)
