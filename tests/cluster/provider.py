"""Decides which cluster the tests use: the user's own by name, else kind, else this project's.

`choose` is pure; `look_around` asks the machine. A kubeconfig that is merely exported is never used: tests
create and delete, and whoever exported it may have meant another cluster.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from testcluster import guard
from testcluster.build import go_problem, go_version, missing_programs, newest_needed_go
from testcluster.machinery import Machinery
from testcluster.packages import missing_programs as missing_host_programs

CONTEXT_VARIABLE = "DARTES_TEST_CONTEXT"
REQUIRE_VARIABLE = "DARTES_REQUIRE_CLUSTER"
DOCKER_SECONDS = 10


class Provider(Enum):
    """Where the cluster comes from."""

    NAMED = "named"
    """The user's own, by its context."""
    KIND = "kind"
    """Kubernetes in Docker containers, made for the tests."""
    OWN = "own"
    """This project's `testcluster`, processes of this host."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the machine and its environment the choice depends on."""

    context: str | None = None
    docker_answers: bool = False
    has_kind: bool = False
    own_problem: str | None = None
    """Why this project's cluster can't run here; None where it can."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The provider, or None where cluster tests can't run; and the reason in words."""

    provider: Provider | None
    reason: str
    context: str | None = None


def choose(around: Surroundings) -> Choice:
    """The first that can be had: the named context, kind, the project's own."""
    if around.context:
        reason = f"the user's cluster, named by {CONTEXT_VARIABLE}={around.context}; nodes are not hurt there"
        return Choice(Provider.NAMED, reason, around.context)
    if around.docker_answers and around.has_kind:
        return Choice(Provider.KIND, "kind, since a Docker daemon answers and kind is installed")
    why_not_kind = "kind is not installed" if around.docker_answers else "no Docker daemon answers"
    if around.own_problem is None:
        return Choice(Provider.OWN, f"this project's test cluster on this host, since {why_not_kind}")
    reason = (
        f"no cluster to test in: {CONTEXT_VARIABLE} names none; {why_not_kind}; "
        f"the project's own can't run here: {around.own_problem}"
    )
    return Choice(None, reason)


def look_around(environ: Mapping[str, str] = os.environ) -> Surroundings:
    """The surroundings as they are; asks no more than the choice needs."""
    context = environ.get(CONTEXT_VARIABLE) or None
    if context:
        return Surroundings(context)
    answers, has_kind = docker_answers(), shutil.which("kind") is not None
    if answers and has_kind:
        return Surroundings(None, answers, has_kind)
    return Surroundings(None, answers, has_kind, own_problem())


def docker_answers() -> bool:
    """Whether a Docker daemon does what `docker info` asks."""
    if not shutil.which("docker"):
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=DOCKER_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def own_problem() -> str | None:
    """Why this project's cluster can't run here, in one sentence with the fix; None where it can."""
    if not sys.platform.startswith("linux"):
        return f"it runs on Linux alone, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "it needs root, for mounts, network devices and cgroups"
    if missing := missing_host_programs():
        return f"programs are missing ({', '.join(missing)}); `python -m testcluster packages` installs them"
    machinery = Machinery.from_environment()
    if missing_programs(machinery.paths) and (problem := go_problem(go_version(), newest_needed_go())):
        return problem
    return guard.refusal(guard.look(machinery.paths, machinery.cgroups), machinery.network)


def is_required(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a run without a cluster is a failed one, as it is in CI."""
    return environ.get(REQUIRE_VARIABLE) == "1"
